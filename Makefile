# A thin front to CMake. What is built lies in $(BUILD); the program is $(BUILD)/outcore, and ./outcore
# links to it.
#
#   make            build outcore                make lint      format, layers, warnings, clang-tidy of what changed
#   make deps       install what is missing      make sanitize  suites under asan + ubsan and tsan, gcc and clang
#   make test       deps, build, all tests       make format    apply clang-format
#   make demo       first result, repeatable     make bench     measurements
#   make fuzz       hours of fuzzing, by name    make coverage  of the parsers by their corpora
#   make install    to PREFIX (/usr/local)       make clean     remove what was built

BUILD ?= build
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE ?= cmake
CMAKE_FLAGS ?=
PREFIX ?= /usr/local
NINJA := $(shell command -v ninja 2>/dev/null)
# A folder that was configured keeps its generator.
GENERATOR = $(if $(NINJA),$(if $(wildcard $(BUILD)/CMakeCache.txt),,-G Ninja))

.PHONY: all outcore deps configure test demo bench lint format sanitize fuzz coverage install clean

all: outcore

configure:
	@$(CMAKE) -S . -B $(BUILD) $(GENERATOR) $(CMAKE_FLAGS)

outcore: configure
	@$(CMAKE) --build $(BUILD) -j $(JOBS) --target outcore
	@ln -sfn $(BUILD)/outcore outcore
	@echo "built $(BUILD)/outcore; ./outcore links to it"

deps:
	@tools/deps.sh

test: deps configure
	@$(CMAKE) --build $(BUILD) -j $(JOBS)
	@tools/test.sh $(BUILD)

demo: deps outcore
	@tools/demo.sh

bench: deps outcore
	@tools/bench.sh

lint:
	@tools/lint.sh

format:
	@tools/lint.sh --fix

sanitize:
	@tools/sanitize.sh

# FUZZ_SECONDS=600 make fuzz; one target: tools/fuzz.sh tokenizer
fuzz:
	@tools/fuzz.sh

coverage:
	@tools/coverage.sh

install: configure
	@$(CMAKE) --build $(BUILD) -j $(JOBS)
	@$(CMAKE) --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build build-asan-* build-tsan-* build-fuzz build-coverage build-lint-gcc build-lint-clang outcore

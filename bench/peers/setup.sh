#!/usr/bin/env bash
# setup.sh: installs the programs outcore is measured against, outside the repository.
#
# usage: OC_PEERS=DIR bench/peers/setup.sh     default DIR: ~/.cache/outcore-peers
# DeepSpeed compiles its CPU Adam when first used: it needs g++ and Python's headers.
set -euo pipefail
dir=${OC_PEERS:-$HOME/.cache/outcore-peers}
python=${PYTHON:-python3}
[ -x "$dir/bin/python" ] || "$python" -m venv "$dir"
have() { "$dir/bin/python" -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('$1'))"; }
have torch || "$dir/bin/pip" install torch
have transformers || "$dir/bin/pip" install transformers
have setuptools || "$dir/bin/pip" install setuptools wheel
# Its setup imports torch, so it is built in this environment; only CPU operations are wanted.
have deepspeed || DS_ACCELERATOR=cpu "$dir/bin/pip" install --no-build-isolation deepspeed
have accelerate || "$dir/bin/pip" install accelerate
have gguf || "$dir/bin/pip" install gguf
# Compiled here, for this processor's instructions.
have llama_cpp || CMAKE_ARGS=-DGGML_NATIVE=ON "$dir/bin/pip" install --no-binary llama-cpp-python llama-cpp-python
"$dir/bin/python" - <<'P'
import importlib.metadata as m
print({name: m.version(name) for name in ("torch", "transformers", "deepspeed", "accelerate", "llama-cpp-python")})
P

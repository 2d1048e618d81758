#!/usr/bin/env bash
# Installs what building, testing and linting need. Changes nothing when all is there.
set -euo pipefail

packages=(build-essential cmake ninja-build pkg-config libdnnl-dev libjansson-dev libcmocka-dev
    libpcre2-dev libutf8proc-dev zlib1g-dev libzstd-dev xz-utils
    clang clang-format clang-tidy python3 bible-kjv)

if ! command -v apt-get >/dev/null; then
    missing=()
    for tool in cc cmake pkg-config python3; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    for library in jansson cmocka libpcre2-8 libutf8proc zlib libzstd; do
        pkg-config --exists "$library" 2>/dev/null || missing+=("$library")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        echo "deps: this system has no apt-get; please install: ${missing[*]}, and oneDNN" >&2
        exit 1
    fi
    exit 0
fi

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# The sanitizers of clang come in a package named after its version.
clang_runtime() {
    local major
    major=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p')
    [ -z "$major" ] || echo "libclang-rt-$major-dev"
}

find_missing() {
    missing=()
    local package
    for package in "${packages[@]}" $(clang_runtime); do
        installed "$package" || missing+=("$package")
    done
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        DEBIAN_FRONTEND=noninteractive "$@"
    elif command -v sudo >/dev/null; then
        sudo DEBIAN_FRONTEND=noninteractive "$@"
    else
        echo "deps: installing ${missing[*]} needs root, and there is no sudo" >&2
        exit 1
    fi
}

find_missing
[ ${#missing[@]} -gt 0 ] || exit 0
as_root apt-get update -q
find_missing
echo "deps: installing ${missing[*]}"
as_root apt-get install -y -q --no-install-recommends "${missing[@]}"

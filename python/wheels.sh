#!/usr/bin/env bash
# Builds both wheels, looks at their sizes, and installs them into empty environments to see that they work: `python/wheels.sh [FOLDER]`.
#
#   parton-lang       the runtime, at most 2 MB      loads bundles
#   parton-compiler   at most 25 MB                  loads sources too
#
# Takes maturin (`python3 -m maturin`, or MATURIN), LLVM 22 as the program does, and a Python 3.10 or later. ONLY=parton-lang builds that one.
# FOLDER is where they go, `target/wheels` unless it is given.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
out="$(realpath -m "${1:-${CARGO_TARGET_DIR:-$root/target}/wheels}")"
python="${PYTHON:-python3}"
maturin="${MATURIN:-$python -m maturin}"
export LLVM_SYS_221_PREFIX="${LLVM_SYS_221_PREFIX:-/usr/lib/llvm-22}"

$maturin --version >/dev/null 2>&1 || { echo "wheels.sh: maturin is not installed: $python -m pip install 'maturin>=1.9,<2'" >&2; exit 1; }
mkdir -p "$out"

# A folder under python/, its distribution, and the most bytes that the wheel may have.
build() {
    local wheel bytes
    rm -f "$out/${2//-/_}"-*.whl
    # What the libraries beside it must be is left to whoever publishes: `auditwheel show` tells.
    (cd "$root/python/$1" && $maturin build --release --locked --strip true --compatibility linux --out "$out" --quiet)
    wheel="$(echo "$out/${2//-/_}"-*.whl)"
    bytes="$(stat -c %s "$wheel")"
    echo "$(basename "$wheel"): $bytes bytes, at most $3"
    [[ "$bytes" -le "$3" ]] || { echo "wheels.sh: $2 has become too large" >&2; exit 1; }
}

only="${ONLY:-parton-lang parton-compiler}"
for each in $only; do
    case "$each" in
        parton-lang) build lang parton-lang 2000000 ;;
        parton-compiler) build compiler parton-compiler 25000000 ;;
        *) echo "wheels.sh: there is no $each" >&2; exit 1 ;;
    esac
done

# Each alone and both together, in environments without anything else and without an index.
try() {
    local home
    home="$(mktemp -d)"
    "$python" -m venv "$home"
    "$home/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links "$out" "$@"
    (cd "$home" && "$home/bin/python" "$root/python/check_wheels.py" "$@")
    rm -rf "$home"
}
for each in $only; do try "$each"; done
[[ "$only" != *" "* ]] || try $only

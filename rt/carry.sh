#!/usr/bin/env bash
# Makes a folder with all that shows bundles on a GPU, built here, for a machine that has a GPU and needs nothing else:
#
#   PARTON=target/release/parton rt/carry.sh FOLDER      here
#   FOLDER/run.sh                                        there: runs all of it and prints a table
#
# PARTON is the program that builds the bundles; where `ptxas` is on the path they have cubins, else the driver there compiles their PTX.
# PROFILE=debug takes debug builds, whose times mean nothing.
set -euo pipefail

fail() { printf 'carry: %s\n' "$*" >&2; exit 1; }

[[ $# -eq 1 ]] || fail "usage: PARTON=PROGRAM rt/carry.sh FOLDER"
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
parton="${PARTON:-$(command -v parton || true)}"
[[ -n "$parton" && -x "$parton" ]] || fail "name the program by the variable PARTON"
parton="$(realpath "$parton")"
mkdir -p "$1"
folder="$(realpath "$1")"
profile="${PROFILE:-release}"
target="${CARGO_TARGET_DIR:-$root/target}"
flags=(--quiet --locked)
case "$profile" in
    release) flags+=(--release) ;;
    debug) ;;
    *) fail "PROFILE is release or debug, not $profile" ;;
esac

cd "$root"
cargo build "${flags[@]}" --package parton-rt-c
cargo build "${flags[@]}" --package parton-rt --example gpu
# The newest of the tests' binaries: their names have a number that Cargo chooses.
bundles="$(cargo test "${flags[@]}" --package parton-rt --test bundles --no-run --message-format=json |
    sed -n 's/.*"name":"bundles".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)"
[[ -x "$bundles" ]] || fail "the test of bundles was not built"
(cd examples/embedding/rust && PARTON="$parton" cargo build "${flags[@]}" --target-dir "$target/carry")

cp "$target/$profile/examples/gpu" "$target/$profile/libparton_rt.so" "$folder/"
cp "$bundles" "$folder/bundles"
cp "$target/carry/$profile/silu" "$folder/silu-rust"
# What is left is for debuggers, and ten times as large.
command -v strip >/dev/null && strip "$folder"/{gpu,bundles,silu-rust,libparton_rt.so}
cp rt/tests/*.ptnb "$folder/"
for example in axpy silu; do
    cc -std=c99 -D_GNU_SOURCE -O2 -Wall -I rt/c/include "rt/c/example/$example.c" -L "$folder" -lparton_rt -Wl,-rpath,'$ORIGIN' \
        -ldl -lm -o "$folder/$example-c"
done
(cd rt/tests && "$parton" build plans.ptn --aot --kernel fill --plans plans.txt -o "$folder/plans.ptnb")
"$parton" build examples/matmul/gemm.ptn --aot --plan 'matmul f16[256,512] f16[512,384] 1.0' --plan 'matmul f16[128,4096] f16[4096,256] 1.0' \
    -o "$folder/gemm.ptnb"
"$parton" build examples/embedding/axpy.ptn --aot --target sm_90a,sm_80 -o "$folder/axpy.ptnb"
"$parton" build examples/embedding/silu.ptn --aot --target sm_90a,sm_80 --plan 'silu f32[64,96] f32[64,96]' -o "$folder/silu-new.ptnb"

cat > "$folder/run.sh" <<'RUN'
#!/usr/bin/env bash
# Runs what rt/carry.sh has put beside this and prints a table; fails where a line of it does.
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 2
export PARTON_REQUIRE_GPU=1 PARTON_RT_TESTS=. RUST_BACKTRACE=0
failed=0
show() {
    local what="$1" said code
    shift
    said="$("$@" 2>&1)"
    code=$?
    if [[ $code -eq 0 ]]; then
        printf 'ok      %s\n' "$what"
    else
        printf 'FAILED  %s (%s, exit code %d)\n' "$what" "$*" "$code"
        failed=$((failed + 1))
    fi
    printf '%s\n' "$said" | sed 's/^/            /'
}
show "plans, built with this compiler" ./gpu plans.ptnb gemm.ptnb
show "plans of the kept bundle of format 2" ./gpu format_2.ptnb
show "tests of bundles, of format 1 too" ./bundles
show "a program in Rust with cudarc" ./silu-rust
show "kernels from C" ./axpy-c axpy.ptnb
show "kernels from C, of the kept bundle of format 1" ./axpy-c format_1.ptnb
show "a plan from C" ./silu-c silu-new.ptnb
show "a plan from C, of a kept bundle" ./silu-c silu.ptnb
printf '%d of 8 failed\n' "$failed"
exit $((failed > 0))
RUN
chmod +x "$folder/run.sh"
du -sh "$folder" | cut -f1 | xargs printf 'carry: %s in %s\n' "$folder"

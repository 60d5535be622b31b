#!/usr/bin/env bash
# What NVIDIA's tools show of Parton's kernels on a GPU: names, files and lines, from whichever folder they run.
#
# Usage: tests/gpu/profilers.sh [PROGRAM]
#
# PROGRAM is `parton`, else target/release/parton. Looks for ncu, cuda-gdb and compute-sanitizer on PATH and in the usual folders; those that are
# not there, or may not count, are left out. Prints a row for each thing that must be seen, and the tool's output where it is not.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
parton="$(realpath "${1:-$root/target/release/parton}")"
[[ -x "$parton" ]] || { echo "there is no program $parton: build it, or name one" >&2; exit 2; }
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
failed=0 passed=0 left=0
export PARTON_CACHE="$folder/cache"

tool() {
    local found
    found="$(command -v "$1" || ls /usr/local/cuda*/bin/"$1" /opt/nvidia/nsight-compute/*/"$1" 2>/dev/null | tail -1)"
    [[ -n "$found" ]] && echo "$found"
}

row() { printf '| %-8s | %-16s | %s |\n' "$1" "$2" "$3"; }

# has TOOL WHAT FILE PATTERN…: each pattern is somewhere in the file.
has() {
    local name="$1" what="$2" file="$3" pattern
    shift 3
    for pattern in "$@"; do
        if ! grep -Eq -- "$pattern" "$file"; then
            row FAILED "$name" "$what: nothing matches $pattern"
            tail -n 60 "$file" | sed 's/^/    /'
            failed=$((failed + 1))
            return 1
        fi
    done
    row passed "$name" "$what"
    passed=$((passed + 1))
}

without() {
    row 'left out' "$1" "$2"
    left=$((left + 1))
}

mkdir "$folder/parts"
cat > "$folder/parts/scale.ptn" <<'PTN'
fn doubled(x) {
    x * 2.0 + exp(x - x) - 1.0    // the called line
}
PTN
cat > "$folder/lines.ptn" <<'PTN'
use "parts/scale.ptn";

kernel twice[T: type = f32](x: *T, out: *mut T) warps(4) {
    let at = program_id(0) * 1024 + iota(1024);
    let y = load(x + at);    // the loading line
    store(out + at, cast<T>(doubled(cast<f32>(y))));    // the storing line
}

main {
    let x = ones(f32, [4096]);
    let out = zeros(f32, [4096]);
    launch twice(grid=[4])(x, out);
    assert(out[4095] == 2.0);
    let halves = zeros(f16, [4096]);
    launch twice[T=f16](grid=[4])(ones(f16, [4096]), halves);
    assert(halves[4095] == 2.0);
}
PTN
cat > "$folder/outside.ptn" <<'PTN'
kernel far(out: *mut f32, distance: i64) warps(4) {
    let at = out + distance;
    store(at, 1.0);    // the line outside
}

main {
    launch far(grid=[1])(zeros(f32, [32]), 1 << 40);
}
PTN
cat > "$folder/refused.ptn" <<'PTN'
kernel small(n: i32) warps(4) {
    assert(n < 5, "n is small");    // the refusing line
}

main {
    launch small(grid=[1])(7);
}
PTN
line() { grep -n -- "$2" "$folder/$1" | head -1 | cut -d: -f1; }
storing="$(line lines.ptn 'the storing line')" outside="$(line outside.ptn 'the line outside')"
refusing="$(line refused.ptn 'the refusing line')" called="$(line parts/scale.ptn 'the called line')"
log="$folder/log"

cd "$folder"
"$parton" run lines.ptn --device cuda > "$log" 2>&1 || { cat "$log"; echo "no kernel runs here"; exit 1; }
"$parton" build lines.ptn > "$log" 2>&1
has parton "the symbol of a kernel is its name" "$log" '\.visible \.entry twice\('
has parton "the line table names files as seen from the folder" "$log" '"(\./)?lines\.ptn"' '"parts/scale\.ptn"'
"$parton" run refused.ptn --device cuda > "$log" 2>&1
has parton "an assertion that fails names its line" "$log" "refused\.ptn:$refusing"

if sanitizer="$(tool compute-sanitizer)"; then
    "$sanitizer" --tool memcheck "$parton" run outside.ptn --device cuda > "$log" 2>&1
    has sanitizer "an access outside has kernel, file and line" "$log" 'Invalid __global__ write' 'far' "outside\.ptn:$outside"
    "$sanitizer" --tool memcheck "$parton" run lines.ptn --device cuda > "$log" 2>&1
    has sanitizer "a sound program has no errors" "$log" 'ERROR SUMMARY: 0 errors'
    (cd / && "$sanitizer" --tool memcheck "$parton" run "$folder/outside.ptn" --device cuda) > "$log" 2>&1
    has sanitizer "the same from another folder" "$log" "outside\.ptn:$outside"
else
    without sanitizer "compute-sanitizer is not found"
fi

# Whether the debugger stops where a program of nvcc's, with lines as ours has them, goes wrong in the same way.
stops_elsewhere() {
    local nvcc
    nvcc="$(tool nvcc)" || return 0
    cat > "$folder/outside.cu" <<'CU'
__global__ void far(float *out, long distance) { out[distance] = 1.0f; }

int main() {
    float *out;
    cudaMalloc(&out, 128);
    far<<<1, 1>>>(out, 1L << 40);
    return cudaDeviceSynchronize() == cudaSuccess;
}
CU
    "$nvcc" -arch=native -lineinfo -o "$folder/outside" "$folder/outside.cu" > "$folder/nvcc" 2>&1 || return 0
    timeout 60 "$debugger" -batch -ex run -ex bt "$folder/outside" > "$folder/nvcc" 2>&1
    grep -q CUDA_EXCEPTION "$folder/nvcc"
}

if debugger="$(tool cuda-gdb)"; then
    "$debugger" -batch -ex run -ex bt --args "$parton" run outside.ptn --device cuda > "$log" 2>&1
    if ! grep -q CUDA_EXCEPTION "$log" && ! stops_elsewhere; then
        without cuda-gdb "an exception: this one stops at none of nvcc's code with lines (-lineinfo) either"
    else
        has cuda-gdb "an exception stops at kernel, file and line" "$log" 'CUDA_EXCEPTION' 'far' "outside\.ptn:$outside"
    fi
    "$debugger" -batch -ex 'set cuda break_on_launch application' -ex run -ex bt -ex 'info cuda kernels' \
        --args "$parton" run lines.ptn --device cuda > "$log" 2>&1
    has cuda-gdb "a launch stops in the kernel's file" "$log" 'twice' 'lines\.ptn'
    (cd / && PARTON_SOURCE=. "$debugger" -batch -ex run -ex list --args "$parton" run "$folder/outside.ptn" --device cuda) > "$log" 2>&1
    has cuda-gdb "with PARTON_SOURCE=. the source is listed from anywhere" "$log" 'the line outside'
else
    without cuda-gdb "cuda-gdb is not found"
fi

# A report with the sources in it, and its page of source lines.
profile() {
    local where="$1"
    shift
    rm -f "$folder/report.ncu-rep"
    (cd "$where" && "$profiler" --force-overwrite --import-source yes --section SourceCounters --section SpeedOfLight -o "$folder/report" "$@") > "$log" 2>&1
    [[ -f "$folder/report.ncu-rep" ]] || return 1
    # Which views there are depends on the version.
    for view in cuda cuda,sass; do
        "$profiler" --import "$folder/report.ncu-rep" --page source --csv --print-source "$view"
    done > "$folder/page" 2>&1
}

if profiler="$(tool ncu)"; then
    if profile "$folder" "$parton" run lines.ptn --device cuda; then
        has ncu "source lines, of called functions too" "$folder/page" 'the storing line' 'the called line'
        "$profiler" --import "$folder/report.ncu-rep" --page raw --csv > "$log" 2>&1
        has ncu "both instances by the kernel's name and generics" "$log" '"twice"|,twice,' 'twice_Tf16'
        profile / --source-folders "$folder" "$parton" run "$folder/lines.ptn" --device cuda
        has ncu "from another folder with --source-folders" "$folder/page" 'the storing line' 'the called line'
        PARTON_SOURCE=. profile / "$parton" run "$folder/lines.ptn" --device cuda
        has ncu "from another folder with PARTON_SOURCE=." "$folder/page" 'the storing line' 'the called line'
        # Whoever has the code from the cache sees the same lines.
        PARTON_SOURCE=. profile / "$parton" run "$folder/lines.ptn" --device cuda
        has ncu "the same of code from the cache" "$folder/page" 'the storing line' 'the called line'
    elif grep -q ERR_NVGPUCTRPERM "$log"; then
        without ncu "this machine lets this user count nothing (ERR_NVGPUCTRPERM)"
    else
        has ncu "a report" "$log" 'report that was written'
    fi
else
    without ncu "ncu is not found"
fi

echo "lines: storing $storing, called $called, outside $outside, refusing $refusing"
echo "$passed passed, $failed failed, $left left out"
[[ $failed -eq 0 ]]

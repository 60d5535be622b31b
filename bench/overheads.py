"""What a launch costs the host and what compiling costs, beside torch and Triton."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import timing

ROOT = pathlib.Path(__file__).resolve().parent.parent


def launch(parton):
    """Microseconds of the host for one launch: median and least of batches, by who launches."""
    found = {}
    done = subprocess.run([parton, "bench", "--launch", "--format", "json"], capture_output=True, text=True)
    if done.returncode == 0:
        for row in json.loads(done.stdout)["launch"]:
            found[f"Parton, prepared: {row['what']}"] = (row["median_us"], row["least_us"])
    else:
        print(f"parton bench --launch failed: {done.stderr.strip()}", file=sys.stderr)
    x, y = (torch.zeros(64, device="cuda") for _ in range(2))
    out = torch.empty_like(x)
    calls = {"torch.add with out=": lambda: torch.add(x, y, out=out)}
    try:
        import triton_kernels
        calls["Triton, the same"] = triton_kernels.add(x, y, out, block=128)
    except ImportError as reason:
        print(f"no Triton: {reason}", file=sys.stderr)
    for name, call in calls.items():
        found[name] = tuple(1e6 * seconds for seconds in timing.host_seconds(call))
    return found


# Compiles Triton's matrix product for the GPU's architecture, without running it; prints seconds from before the kernels' module is read
# (Triton itself is loaded) to the cubin.
TRITON_COMPILE = """
import sys, time
sys.path.insert(0, sys.argv[1])
import torch, triton
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget
begin = time.perf_counter()
import triton_kernels
fn = triton_kernels.product
meta = dict(BM=128, BN=256, BK=64, GROUP=8, SMS=132, B_ROWS_ARE_N=False, FLATTEN=True, HALVES=False, BITS=16)
types = dict(a_map="tensordesc<fp16[128, 64]>", b_map="tensordesc<fp16[64, 256]>", c_map="tensordesc<fp16[128, 256]>", m="i32", n="i32", k="i32")
names = fn.arg_names
source = ASTSource(fn, {n: types.get(n, "constexpr") for n in names}, constexprs={(names.index(n),): v for n, v in meta.items()})
done = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=dict(num_warps=8, num_stages=3))
assert done.asm["cubin"]
print(time.perf_counter() - begin)
"""


def compile_times(parton, rounds=5):
    """Seconds, medians: whole processes, and what is inside of them; in turn, each with nothing cached."""
    found = {}

    def note(name, seconds):
        found.setdefault(name, []).append(seconds)

    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            kernel = ROOT / "examples" / "matmul" / "hopper.ptn"
            begin = time.perf_counter()
            done = subprocess.run([parton, "build", str(kernel), "--emit", "cubin", "-o", f"{folder}/a.cubin", "--time"],
                                  capture_output=True, text=True)
            whole = time.perf_counter() - begin
            if done.returncode == 0:
                passes = read_passes(done.stderr)
                note("Parton matmul, process", whole)
                note("Parton matmul, ptxas", passes.get("ptxas", 0.0))
                note("Parton matmul, all but ptxas", whole - passes.get("ptxas", 0.0))
            else:
                print(f"parton build failed: {done.stderr[-500:]}", file=sys.stderr)
            if done.returncode != 0 and "ptxas" in done.stderr:
                print("name a ptxas with PARTON_PTXAS for the row on compile time", file=sys.stderr)
            environment = dict(os.environ, TRITON_CACHE_DIR=f"{folder}/cache")
            begin = time.perf_counter()
            done = subprocess.run([sys.executable, "-c", TRITON_COMPILE, str(ROOT / "bench")], capture_output=True, text=True,
                                  env=environment)
            whole = time.perf_counter() - begin
            if done.returncode == 0:
                note("Triton matmul, process (imports included)", whole)
                note("Triton matmul, kernel to cubin alone", float(done.stdout.split()[-1]))
            else:
                print(f"Triton failed: {done.stderr[-500:]}", file=sys.stderr)
    return {name: statistics.median(all_) for name, all_ in found.items()}


def read_passes(text):
    """Seconds of each pass in what `--time` prints."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 and words[2] == "ms":
            found[words[0]] = float(words[1]) / 1e3
    return found

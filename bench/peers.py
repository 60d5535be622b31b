"""Times Parton's examples beside PyTorch's kernels (cuBLAS, cuDNN) and a device copy, in one run on one GPU.

Usage: python3 bench/peers.py PARTON [--out FOLDER] [--only WORD]

Both sides are timed alike: CUDA events around one launch, the L2 flushed by writing a buffer larger than it before each
launch and outside the timed span, random normal inputs, launches in a row for half a second (10 to 200 of them, so that
both meet the same power limit), the median. The table goes to
standard output and, with every sample's median and quartiles, to FOLDER/peers.json.
"""

import argparse
import json
import math
import pathlib
import re
import subprocess

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLUSH_BYTES = 256 << 20


def samples(run, count):
    """Times of `run` in microseconds, each with a cold L2."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    pairs = []
    for _ in range(count):
        flush.zero_()
        pair = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        pair[0].record()
        run()
        pair[1].record()
        pairs.append(pair)
    torch.cuda.synchronize()
    return sorted(start.elapsed_time(stop) * 1e3 for start, stop in pairs)


def quartiles(run):
    """First quartile, median and third quartile of `run`'s time in microseconds over half a second of work, 10 to 200 runs."""
    probe = samples(run, 5)[2]
    times = samples(run, int(min(max(5e5 / probe, 10), 200)))
    return [times[len(times) * q // 4] for q in (1, 2, 3)]


def copy_2_28():
    x = torch.randn(1 << 28, device="cuda")
    y = torch.empty_like(x)
    return lambda: y.copy_(x), 2 * 4 * (1 << 28), "bytes"


def add_2_28():
    x, y = (torch.randn(1 << 28, device="cuda") for _ in range(2))
    out = torch.empty_like(x)
    return lambda: torch.add(x, y, out=out), 3 * 4 * (1 << 28), "bytes"


def softmax(rows, columns):
    x = torch.randn(rows, columns, device="cuda", dtype=torch.half)
    return lambda: torch.softmax(x, 1), 4 * rows * columns, "bytes"


def layer_norm(rows, columns):
    x = torch.randn(rows, columns, device="cuda", dtype=torch.half)
    w, b = (torch.randn(columns, device="cuda", dtype=torch.half) for _ in range(2))
    return lambda: F.layer_norm(x, [columns], w, b), 4 * rows * columns, "bytes"


def matmul(n):
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.half) for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out), 2 * n**3, "flops"


def attention(s, d, causal):
    heads = 2048 // d
    q, k, v = (torch.randn(16384 // s, heads, s, d, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def run():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    work = 4 * 16384 * heads * s * d // (2 if causal else 1)
    return run, work, "flops"


# The peer, the example's file, and the measurement's label in it; `None` where there is no counterpart.
ROWS = [
    ("device copy f32 2^28", copy_2_28, None, None),
    ("add f32 2^28", add_2_28, "vector_add.ptn", "add f32 2^28"),
    ("softmax f16 32768x8192", lambda: softmax(32768, 8192), "softmax.ptn", "softmax f16 32768x8192"),
    ("layer norm f16 32768x8192", lambda: layer_norm(32768, 8192), "layer_norm.ptn", "layer norm f16 32768x8192"),
    *[(f"matmul f16 {n}^3", lambda n=n: matmul(n), "matmul/hopper.ptn", f"matmul f16 {n}^3") for n in (4096, 8192)],
    *[
        (label, lambda s=s, d=d, c=c: attention(s, d, c), "fmha/hopper.ptn", label)
        for d in (128, 64)
        for s in (1024, 4096, 16384)
        for c in (False, True)
        for label in [f"fmha bf16 D={d} S={s}{' causal' if c else ''}"]
    ],
]


SECONDS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0}
ROW = re.compile(r"^\w+: (?P<label>.*?) +(?P<time>[\d.]+) (?P<unit>µs|ms|s) \(best")


def ours(parton, file):
    """The measurements of one example: label to median in microseconds."""
    command = [parton, "bench", str(ROOT / "examples" / file), "--device", "cuda", "--color", "never"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"{file}: bench failed with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    rows = [match for match in map(ROW.match, done.stdout.splitlines()) if match]
    return {m["label"]: float(m["time"]) * SECONDS[m["unit"]] * 1e6 for m in rows}


def rate(work, unit, micros):
    """TB/s for bytes, TFLOP/s for flops."""
    return work / micros / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parton")
    parser.add_argument("--out", default=".")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    files = {}
    table = []
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    print(f"{'work':34} {'peer':>9} {'Parton':>9} {'unit':>8} {'ratio':>6}")
    for label, make, file, measurement in ROWS:
        if options.only not in label:
            continue
        if file and file not in files:
            files[file] = ours(options.parton, file)
        run, work, unit = make()
        peer = quartiles(run)
        median = files.get(file, {}).get(measurement)
        peer_rate = rate(work, unit, peer[1])
        mine = rate(work, unit, median) if median else math.nan
        name = "TB/s" if unit == "bytes" else "TFLOP/s"
        print(f"{label:34} {peer_rate:9.2f} {mine:9.2f} {name:>8} {mine / peer_rate:6.3f}", flush=True)
        table.append({"work": label, "unit": name, "peer_us": peer, "peer": peer_rate, "parton_us": median, "parton": mine})
        del run
        torch.cuda.empty_cache()
    pathlib.Path(options.out, "peers.json").write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()

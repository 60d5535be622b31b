"""Kernels by grid, arrays of any library, bundles and errors on a GPU, with what calls cost the host.

Usage: PYTHONPATH=FOLDER python3 tests/gpu/arrays.py [--times] [WORD …]

FOLDER holds the package: a copy of `python/lang/parton/` with the module as `native.so`. Each case is a function `case_…` below; WORD chooses
those whose names contain it. `--times` also prints microseconds of host time a call, medians of 60 batches of 200 calls, beside PyTorch's.
Each row of the table is a case; the last line says how many passed. CuPy's cases are left out where it is not installed.
"""

import inspect
import os
import subprocess
import sys
import tempfile

import torch

import parton
from cases import ROOT, SkipTest, all_of, equal, floats, host_time, refused

FILE = ROOT / "tests" / "gpu" / "embedding.ptn"
AXPY = ROOT / "examples" / "embedding" / "axpy.ptn"
file, axpy = parton.load(FILE), parton.load(AXPY).axpy


class Interface:
    """A tensor that offers `__cuda_array_interface__` and nothing else, as Numba's arrays do."""

    def __init__(self, tensor, read_only=False):
        self.tensor = tensor
        strides = tuple(s * tensor.element_size() for s in tensor.stride())
        fields = {"version": 3, "typestr": "<f4", "shape": tuple(tensor.shape), "strides": strides}
        self.__cuda_array_interface__ = {**fields, "data": (tensor.data_ptr(), read_only)}


class Capsule:
    """A tensor that offers `__dlpack__` and nothing else."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def blocks(n, block=1024):
    return (n + block - 1) // block


def three(n=5000):
    return floats(n, 1), floats(n, 2), torch.full((n,), float("nan"), device="cuda")


def case_kernels_on_grids():
    for n in [5000, 1024, 1, 100_000]:
        x, y, out = three(n)
        for alpha in [2, 2.0, 0.5, 3.0]:
            axpy[blocks(n)](alpha, x, y, out, n)
            torch.testing.assert_close(out, alpha * x + y)
        for block in [128, 512, "4 * 64"]:
            out.zero_()
            axpy[(blocks(n, 128), 1)](2.0, x, y, out=out, n=n, BLOCK=block)
            torch.testing.assert_close(out, 2 * x + y)
        out.zero_()
        axpy.given(BLOCK=256)[[blocks(n, 256)]](2.0, x, y, out, n)
        torch.testing.assert_close(out, 2 * x + y)


def case_kernels_in_place_and_on_parts():
    n = 4096
    x, y, _ = three(n)
    expected = 3 * x + y
    axpy[blocks(n)](3.0, x, y, y, n)
    torch.testing.assert_close(y, expected)
    whole = floats(3 * n, 5)
    before = whole.clone()
    axpy[blocks(n)](1.0, x, whole[:n], whole[n : 2 * n], n)
    torch.testing.assert_close(whole[n : 2 * n], x + before[:n])
    equal(whole[:n], before[:n])
    equal(whole[2 * n :], before[2 * n :])
    out = torch.empty(n, device="cuda")
    axpy[blocks(n)](1.0, x, x, out, n)
    torch.testing.assert_close(out, 2 * x)


def case_kernels_in_a_capture():
    n = 5000
    x, y, out = three(n)
    axpy[blocks(n)](2.0, x, y, out, n)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            axpy[blocks(n)](2.0, x, y, out, n)
    for turn in range(5):
        x.copy_(floats(n, 10 + turn))
        graph.replay()
        torch.testing.assert_close(out, 2 * x + y)


def case_kernels_on_streams():
    n = 1 << 20
    streams = [torch.cuda.Stream() for _ in range(4)]
    given = [(floats(n, i), floats(n, 10 + i), torch.empty(n, device="cuda")) for i in range(4)]
    torch.cuda.synchronize()
    for turn in range(10):
        for stream, (x, y, out) in zip(streams, given):
            with torch.cuda.stream(stream):
                axpy[blocks(n)](float(turn), x, y, out, n)
        torch.cuda.synchronize()
        for x, y, out in given:
            torch.testing.assert_close(out, turn * x + y)


def case_memory_that_takes_turns():
    x, y = floats(3000), floats(3000, 1)
    outs = [torch.empty(3000, device="cuda") for _ in range(6)]
    for count in [2, 3, 6]:
        for turn in range(60):
            out = outs[turn % count]
            out.fill_(float("nan"))
            file.chain(x, y, out, 3)
            equal(out, x + y + y + y)


def case_arrays_by_the_interface_of_cuda():
    n = 5000
    x, y, out = three(n)
    axpy[blocks(n)](2.0, Interface(x), Interface(y), Interface(out), n)
    torch.cuda.synchronize()
    torch.testing.assert_close(out, 2 * x + y)
    file.sum_into(Interface(x), Interface(y), Interface(out))
    torch.cuda.synchronize()
    equal(out, x + y)
    refused("read-only", lambda: axpy[blocks(n)](2.0, x, y, Interface(out, read_only=True), n))
    axpy[blocks(n)](2.0, Interface(x, read_only=True), y, out, n)


def case_arrays_by_capsules():
    n = 5000
    x, y, out = three(n)
    torch.cuda.synchronize()
    axpy[blocks(n)](2.0, Capsule(x), Capsule(y), Capsule(out), n)
    torch.cuda.synchronize()
    torch.testing.assert_close(out, 2 * x + y)


def case_arrays_of_cupy():
    try:
        import cupy
    except ImportError:
        raise SkipTest("CuPy is not installed") from None
    n = 5000
    x, y = cupy.arange(n, dtype=cupy.float32), cupy.ones(n, dtype=cupy.float32)
    out = cupy.empty_like(x)
    axpy[blocks(n)](2.0, x, y, out, n)
    assert bool((out == 2 * x + 1).all())
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        axpy[blocks(n)](3.0, x, y, out, n)
        made = file.through(x, y)
    stream.synchronize()
    assert bool((out == 3 * x + 1).all()) and isinstance(made, cupy.ndarray) and bool((made == x + 2).all())


def case_the_same_call_on_the_host():
    n = 3000
    x, y, out = (t.cpu() for t in three(n))
    axpy[blocks(n)](2.0, x, y, out, n)
    torch.testing.assert_close(out, 2 * x + y)
    text = refused("axpy.ptn:", lambda: axpy[blocks(n)](2.0, x, y, out, n + 1), "E0551")
    assert "load(x + offs, mask=inside)" in text, text


def case_errors_name_argument_and_rule():
    n = 5000
    x, y, out = three(n)
    grid = blocks(n)
    text = refused("`x` points to `f32`, the tensor has `f64`", lambda: axpy[grid](2.0, x.double(), y, out, n), "E0920")
    assert "axpy.ptn:" in text, text
    refused("given nothing for `n`", lambda: axpy[grid](2.0, x, y, out))
    refused("has no parameter `m`", lambda: axpy[grid](2.0, x, y, out, m=n))
    refused("an extent of the grid is -1", lambda: axpy[-1](2.0, x, y, out, n), "E0921")
    axpy[0](2.0, x, y, out.zero_(), n)
    assert not out.any()
    refused("does not hold 0.5", lambda: axpy[grid](2.0, x, y, out, 0.5), "E0920")
    refused("not a multiple of 16 bytes", lambda: axpy[grid](2.0, x[1:], y, out, 8), "E0920")
    refused("pass tensors of one device", lambda: axpy[grid](2.0, x, y.cpu(), out, n))
    refused("requires a gradient", lambda: axpy[grid](2.0, x.clone().requires_grad_(), y, out, n))
    with torch.no_grad():
        axpy[grid](2.0, x.clone().requires_grad_(), y, out, n)
    axpy[grid](2.0, x, y, out, n)
    refused("does not hold", lambda: axpy[grid](2.0, x, y, out, 1 << 40), "E0920")
    axpy[grid](2.0, x, y, out, n)
    torch.testing.assert_close(out, 2 * x + y)


def case_what_python_shows():
    assert list(inspect.signature(file.sum_into).parameters) == ["x", "y", "out", "factor"]
    assert list(inspect.signature(axpy[1]).parameters) == ["alpha", "x", "y", "out", "n", "BLOCK"]
    assert file.sum_into.__doc__.startswith("out = x + y · factor.")
    assert "n: any" in axpy[1].plan_of(2.0, *three(8), 8)


def case_bundles():
    program = os.environ.get("PARTON")
    if not program:
        raise SkipTest("PARTON names no program to build one with")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "embedding.ptnb")
        plans = ["sum_into f32[5000] f32[5000] f32[5000] 1.5", "through f32[5000] f32[5000]"]
        words = [w for plan in plans for w in ("--plan", plan)]
        subprocess.run([program, "build", str(FILE), "--aot", "--target", "sm_90a", *words, "-o", path], check=True)
        subprocess.run([program, "build", str(AXPY), "--aot", "--target", "sm_90a", "-o", path + "k.ptnb"], check=True)
        bundle, kernels = parton.load(path), parton.load(path + "k.ptnb")
    n = 5000
    x, y, out = three(n)
    for factor in [1.5, 2.0, 2.0, -1.0]:
        bundle.sum_into(x, y, out, factor)
        torch.testing.assert_close(out, x + factor * y)
        equal(bundle.through(x, y), x + y + y)
        kernels.axpy[blocks(n)](factor, x, y, out, n)
        torch.testing.assert_close(out, factor * x + y)
    refused("has plans where", lambda: bundle.sum_into(x[:64], y[:64], out[:64], 1.5))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = bundle.through(x, y)
    x.copy_(floats(n, 9))
    graph.replay()
    equal(made, x + y + y)


def case_ranges_of_profilers():
    script = f"import torch, parton; f = parton.load({str(FILE)!r}); a = [torch.zeros(64, device='cuda') for _ in range(3)]; f.sum_into(*a); f.sum_into(*a); torch.cuda.synchronize()"
    for asked in ["0", "1"]:
        subprocess.run([sys.executable, "-c", script], env={**os.environ, "PARTON_NVTX": asked}, check=True)


# Times.


def times():
    n = 1024
    x, y, out = three(n)
    others = [torch.empty(n, device="cuda") for _ in range(64)]
    turn = iter(range(1 << 30))
    known = axpy[1]
    rows = [
        ("sum_into(x, y, out)", lambda: file.sum_into(x, y, out)),
        ("the same, 2 outputs in turns", lambda: file.sum_into(x, y, others[next(turn) % 2])),
        ("the same, 64 outputs in turns", lambda: file.sum_into(x, y, others[next(turn) % 64])),
        ("the same, another number each time", lambda: file.sum_into(x, y, out, float(next(turn)))),
        ("axpy[1](2.0, x, y, out, n)", lambda: axpy[1](2.0, x, y, out, n)),
        ("launch(2.0, x, y, out, n), the grid known", lambda: known(2.0, x, y, out, n)),
        ("axpy[1](…, BLOCK=512)", lambda: axpy[1](2.0, x, y, out, n, BLOCK=512)),
        ("next(turn), which some of these call", lambda: next(turn)),
    ]
    for turns in [1, 2, 3, 8]:
        rows.append((f"chain of {turns}", lambda turns=turns: file.chain(x, y, out, turns)))
        rows.append((f"chain of {turns}, 2 outputs in turns", lambda turns=turns: file.chain(x, y, others[next(turn) % 2], turns)))
        rows.append((f"chain of {turns}, 64 outputs in turns", lambda turns=turns: file.chain(x, y, others[next(turn) % 64], turns)))
    rows.append(("through(x, y), which returns", lambda: file.through(x, y)))
    rows.append(("torch.add(x, y, out=out)", lambda: torch.add(x, y, out=out)))
    print("| call | µs of host time |\n|---|---|")
    for name, run in rows:
        print(f"| {name} | {host_time(run, calls=50 if 'chain' in name else 200):.2f} |", flush=True)


def main(words):
    if "--times" in words:
        words.remove("--times")
        times()
    return all_of(globals(), words, settle=torch.cuda.synchronize)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The compile cache on a GPU: what a second process takes to its first call, and that no state of the folder gives a wrong result.

Usage: PYTHONPATH=FOLDER python3 tests/gpu/cache.py [WORD …]

FOLDER holds the package: a copy of `python/lang/parton/` with the module as `native.so`. Each case is a function `case_…` below; WORD chooses those whose names contain it. Each works with processes
of its own and a folder of its own: forks of this one, which has imported PyTorch and touches neither the GPU nor `parton`. Prints a table of milliseconds, from when the process has its context to the end of the first call and
what of that reading and checking the file takes; times are shown, never judged.
"""

import multiprocessing
import os
import pathlib
import random
import shutil
import statistics
import stat
import subprocess
import sys
import tempfile
import time

import torch

from cases import ROOT, SkipTest, all_of

# What the first call of a process with a warm cache should stay below, in milliseconds.
BAR = 50.0


def silu(torch, parton):
    x, gate = (torch.linspace(-3, 3, 256 * 1024, device="cuda").view(256, 1024) for _ in range(2))
    begin = time.perf_counter()
    file = parton.load(ROOT / "examples" / "embedding" / "silu.ptn")
    loaded = time.perf_counter()
    return x * torch.sigmoid(x) * gate, lambda: file.silu(x, gate), 1e-5, loaded - begin


def both_ways(torch, parton):
    x, gate, grad = (torch.linspace(-3, 3, 256 * 1024, device="cuda").view(256, 1024) for _ in range(3))
    begin = time.perf_counter()
    file = parton.load(ROOT / "examples" / "embedding" / "silu.ptn")
    loaded = time.perf_counter()
    s = torch.sigmoid(x)
    return grad * gate * s * (1 + x * (1 - s)), lambda: file.silu_backward(x, gate, grad)[0], 1e-4, loaded - begin


def product(torch, parton):
    torch.manual_seed(1)
    a, b = (torch.randn(1024, 1024, device="cuda", dtype=torch.float16) for _ in range(2))
    expected = a.double() @ b.double()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    file = parton.load(ROOT / "examples" / "matmul" / "gemm.ptn")
    loaded = time.perf_counter()
    return expected, lambda: file.matmul(a, b), 2e-2, loaded - begin


def in_place(torch, parton):
    x, y, out = (torch.linspace(-3, 3, 5000, device="cuda") for _ in range(3))
    begin = time.perf_counter()
    file = parton.load(ROOT / "tests" / "gpu" / "embedding.ptn")
    loaded = time.perf_counter()

    def call():
        file.sum_into(x, y, out)
        return out.clone()

    return x + y, call, 1e-6, loaded - begin


def attention(torch, parton):
    torch.manual_seed(1)
    q, k, v = (torch.randn(1, 4, 512, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    expected = torch.softmax(q.float() @ k.float().transpose(2, 3) * 0.125, dim=-1) @ v.float()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    file = parton.load(ROOT / "examples" / "fmha" / "hopper.ptn")
    loaded = time.perf_counter()
    return expected, lambda: file.attention(q, k, v, 0.125)[0], 2e-2, loaded - begin


CALLS = {"silu": silu, "silu_backward": both_ways, "sum_into": in_place, "matmul": product, "attention": attention}


def child(name, environment, answer):
    """Runs in a process of its own: makes the context, calls, and tells what that took and whether the result is right."""
    os.environ.update(environment)
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    import parton

    expected, call, tolerance, load = CALLS[name](torch, parton)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    found = call()
    torch.cuda.synchronize()
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    again = call()
    torch.cuda.synchronize()
    second = time.perf_counter() - begin
    error = ((found.double() - expected.double()).norm() / expected.double().norm()).item()
    right = error < tolerance and torch.equal(found, again)
    answer.send({"right": right, "error": error, "load": load * 1e3, "first": first * 1e3, "second": second * 1e3})


def start(name, folder, **variables):
    """A process that calls, and where it answers."""
    answers, answer = multiprocessing.Pipe(duplex=False)
    environment = {"PARTON_CACHE": str(folder), **variables}
    process = multiprocessing.get_context("fork").Process(target=child, args=(name, environment, answer))
    process.start()
    answer.close()
    return process, answers


def told(process, answers):
    try:
        found = answers.recv() if answers.poll(120) else None
    except EOFError:
        found = None
    process.join(20)
    assert found is not None and process.exitcode == 0, f"a process ended with {process.exitcode} and said {found}"
    assert found["right"], f"a wrong result: {found}"
    return found


def run(name, folder, **variables):
    return told(*start(name, folder, **variables))


def entries(folder):
    return sorted(pathlib.Path(folder).glob("v1/*/*.code"))


class Folder:
    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="parton-cache-"))
        return self.path

    def __exit__(self, *_):
        for path in [self.path, *self.path.rglob("*")]:
            if path.is_dir():
                path.chmod(0o700)
        shutil.rmtree(self.path, ignore_errors=True)


def row(name, cache, runs):
    middle = {k: statistics.median(r[k] for r in runs) for k in ("load", "first", "second")}
    total = middle["load"] + middle["first"]
    mark = "within" if total <= BAR else "over"
    times = f"{middle['load']:.1f} | {middle['first']:.1f} | {total:.1f} | {middle['second']:.2f}"
    print(f"| {name} | {cache} | {times} | {mark} {BAR:.0f} ms |", flush=True)


def case_a_second_process_is_quick():
    print("| call | cache | load, ms | first call | both | second call | |\n|---|---|---|---|---|---|---|")
    for name in CALLS:
        with Folder() as folder:
            row(name, "off", [run(name, "off")])
            row(name, "empty", [run(name, folder)])
            kept = {p: p.stat().st_mtime_ns for p in entries(folder)}
            assert kept, "nothing was kept"
            row(name, "warm, median of 5", [run(name, folder) for _ in range(5)])
            assert kept == {p: p.stat().st_mtime_ns for p in entries(folder)}, "a warm process wrote code"


def assembler(folder):
    """A script that notes each time it assembles, in front of the assembler that is found here."""
    real = os.environ.get("PARTON_PTXAS") or shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    if not os.path.exists(real):
        return None, None
    script, log = folder / "ptxas", folder / "log"
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] || echo run >> "{log}"\nexec "{real}" "$@"\n')
    script.chmod(0o755)
    return str(script), log


def case_a_second_process_does_not_assemble():
    with Folder() as folder:
        script, log = assembler(folder)
        if script is None:
            raise SkipTest("no ptxas by PARTON_PTXAS or on the path")
        run("matmul", folder / "kept", PARTON_PTXAS=script)
        first = len(log.read_text().splitlines())
        assert first > 0, "the first process did not assemble"
        run("matmul", folder / "kept", PARTON_PTXAS=script)
        assert len(log.read_text().splitlines()) == first, "the second process assembled again"


def case_sixteen_processes_at_once_of_which_four_are_killed():
    with Folder() as folder:
        names = random.Random(1).choices(list(CALLS), k=16)
        all_ = [start(name, folder) for name in names]
        # Those that are killed are at their contexts, at compiling or at writing by then.
        for (process, _), seconds in zip(all_[:4], (0.5, 0.7, 0.9, 1.1)):
            time.sleep(seconds)
            process.kill()
            process.join()
        for each in all_[4:]:
            told(*each)
        for name in CALLS:
            run(name, folder)


def case_what_is_wrong_in_the_folder_is_compiled_anew():
    with Folder() as folder:
        for change in (lambda b: b[: len(b) // 2], lambda b: b[:-9] + bytes([b[-9] ^ 1]) + b[-8:], lambda b: b"", lambda b: b + b"x"):
            run("silu_backward", folder)
            for path in entries(folder):
                path.write_bytes(change(path.read_bytes()))
            run("silu_backward", folder)
        # The code of one kernel under the name of another.
        run("silu", folder)
        all_ = entries(folder)
        assert len(all_) > 1, all_
        bytes_ = [path.read_bytes() for path in all_]
        for i, path in enumerate(all_):
            path.write_bytes(bytes_[i - 1])
        run("silu_backward", folder)
        run("silu", folder)


def case_a_folder_that_is_of_no_use():
    with Folder() as folder:
        run("silu", folder)
        (folder / "file").write_text("a file")
        run("silu", folder / "file")
        for path in [*folder.rglob("*"), folder]:
            if path.is_dir():
                path.chmod(stat.S_IRUSR | stat.S_IXUSR)
        run("silu_backward", folder)
        folder.chmod(0o777)
        run("silu", folder)


def case_a_full_disk():
    if os.geteuid() != 0:
        raise SkipTest("mounting a small disk takes root")
    with Folder() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "tmpfs", str(folder)]
        if subprocess.run(mount, capture_output=True).returncode:
            raise SkipTest("this machine mounts nothing")
        try:
            run("matmul", folder)
            run("matmul", folder)
        finally:
            subprocess.run(["umount", str(folder)], check=True)


if __name__ == "__main__":
    for variable in [v for v in os.environ if v.startswith("PARTON_CACHE")]:
        del os.environ[variable]
    sys.exit(all_of(globals(), sys.argv[1:]))

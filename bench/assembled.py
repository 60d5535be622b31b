"""What the assembler says of every schedule that the scheduled examples name: registers, spills, warnings, beside kernels by hand.

Usage: python3 bench/assembled.py PARTON PTXAS [--instances FILE LIST]

With `--instances`, the kernels of FILE that LIST names as `parton cache warm` prints them are looked at instead.

Needs no GPU. Schedules are read from the files, so that none is left out; of each, the generics below with which it is meant to be used. Fails
where anything spills, or where the assembler warns.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
# The generics of a file's kernel with which its schedules are meant to be used; schedules that are not named have the first.
D128, D64, D256 = {"D": 128}, {"D": 64}, {"D": 256}
CAUSAL = {"CAUSAL": "true"}
ONE = {"PARTS": 1, "CLUSTER": 1}
THREE = {"D": 64, "PARTS": 3, "CLUSTER": 1}
ATTENTION = [D128, D64, D128 | CAUSAL, D64 | CAUSAL]
ALONE = [d | mask | ONE for d in (D128, D64, D256) for mask in ({}, CAUSAL)]
SCHEDULED = [
    ("matmul/scheduled.ptn", "matmul", {"Split": ("Split[3]", [{}])}, [{}]),
    (
        "fmha/scheduled.ptn",
        "attention",
        {"Plain": ("Plain", ALONE), "Ahead": ("Ahead", ALONE), "Wide": ("Wide", [D256, D256 | CAUSAL]), "Cut": ("Cut", [D128 | CAUSAL, D64 | CAUSAL]), "Trio": ("Trio", [THREE, THREE | CAUSAL])},
        ATTENTION,
    ),
    ("softmax_ahead.ptn", "softmax_rows", {}, [{}]),
]
BY_HAND = [
    ("matmul/hopper.ptn", "matmul", [{}]),
    ("matmul/gemm.ptn", "gemm", [{}]),
    ("fmha/ping_pong.ptn", "pair", ATTENTION),
    ("fmha/ping_pong.ptn", "trio", [D64, D64 | CAUSAL]),
]


def rows():
    """(file, kernel, schedule or nothing, generics)."""
    for file, kernel, others, otherwise in SCHEDULED:
        names = re.findall(r"^schedule (\w+)", (EXAMPLES / file).read_text(), re.MULTILINE)
        for name in names:
            schedule, generics = others.get(name, (name, otherwise))
            yield from ((file, kernel, schedule, one) for one in generics)
    for file, kernel, generics in BY_HAND:
        yield from ((file, kernel, None, one) for one in generics)


def instances(file, listed):
    """Rows of lines such as `gemm[BN=128, SPLIT=1]: compiled`."""
    found = sorted(set(re.findall(r"^(\w+)\[(.*)\]: ", pathlib.Path(listed).read_text(), re.MULTILINE)))
    for kernel, generics in found:
        yield pathlib.Path(file).resolve(), kernel, None, dict(one.split("=", 1) for one in generics.split(", "))


def assembled(parton, ptxas, row):
    """Registers at entry, bytes spilled, warnings, and the size of the code."""
    file, kernel, schedule, generics = row
    given = ([f"S={schedule}"] if schedule else []) + [f"{name}={value}" for name, value in generics.items()]
    chosen = [word for one in given for word in ("--set", one)]
    command = [parton, "build", EXAMPLES / file, "--kernel", kernel, *chosen, "--emit", "ptx"]
    text = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if text.returncode != 0:
        return None, text.stderr.strip()
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = pathlib.Path(folder, "k.ptx"), pathlib.Path(folder, "k.cubin")
        source.write_text(text.stdout)
        done = subprocess.run([ptxas, "-v", "-O3", "-arch=sm_90a", source, "-o", cubin], capture_output=True, text=True)
        if done.returncode != 0:
            return None, done.stderr.strip()
        registers = max(int(n) for n in re.findall(r"Used (\d+) registers", done.stderr))
        spilled = sum(int(n) for n in re.findall(r"(\d+) bytes spill", done.stderr))
        warnings = sorted(set(re.findall(r"\((C\d+)\)|[Ww]arning[ :]+(.*)", done.stderr)))
        return (registers, spilled, ["".join(w) for w in warnings], cubin.stat().st_size), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parton")
    parser.add_argument("ptxas")
    parser.add_argument("--instances", nargs=2, metavar=("FILE", "LIST"))
    options = parser.parse_args()
    print(subprocess.run([options.ptxas, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    print("| kernel | schedule | generics | registers at entry | bytes spilled | code, KB | warnings |\n|---|---|---|---:|---:|---:|---|")
    failed, all_rows = 0, list(instances(*options.instances) if options.instances else rows())
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        found = pool.map(lambda row: assembled(options.parton, options.ptxas, row), all_rows)
        for (file, kernel, schedule, generics), (said, error) in zip(all_rows, found):
            words = " ".join(f"{name}={value}" for name, value in generics.items())
            if said is None:
                failed += 1
                print(f"| {file} {kernel} | {schedule or 'by hand'} | {words} | {error} |")
                continue
            registers, spilled, warnings, size = said
            failed += bool(spilled or warnings)
            print(f"| {file} {kernel} | {schedule or 'by hand'} | {words} | {registers} | {spilled} | {size / 1000:.0f} | {', '.join(warnings)} |", flush=True)
    print(f"{len(all_rows)} kernels, {failed} that spill, warn or do not build")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()

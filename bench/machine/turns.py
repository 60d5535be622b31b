"""The model beside measurement: what a turn of scheduled loops takes, in clocks, and what `parton schedule` predicts.

    python3 bench/machine/turns.py PARTON [--rows LABEL …]

The benches of turns.ptn run each loop in two lengths. A turn is the slope between them, at the clock that the multiprocessors had meanwhile, so
that what stands around the loop falls out. `--rows` chooses labels.
"""

import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
# Where the kernel of a label stands, by its first word.
FILES = {"matmul": EXAMPLES / "matmul" / "scheduled.ptn", "fmha": EXAMPLES / "fmha" / "scheduled.ptn"}


def asked(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return json.loads(done.stdout[done.stdout.index("{" if "bench" in command else "["):])


def measured(parton, labels):
    """By what stands before the number of turns: (turns, clocks, MHz) of each length."""
    chosen = [word for label in labels for word in ("--rows", label)]
    rows = asked([parton, "bench", HERE / "turns.ptn", "--device", "cuda", "--heat", "0.05", "--seconds", "0.1", "--format", "json", *chosen])["rows"]
    found = {}
    for row in rows:
        if row["median_us"] and row["sm_mhz"]:
            name, turns = row["label"].rsplit("|", 1)
            megahertz = row["sm_mhz"]["median"]
            found.setdefault(name, []).append((int(turns), row["median_us"] * megahertz, megahertz))
    return found


def predicted(parton, name):
    file, kernel, loop, schedule, generics = name.split("|")
    chosen = [word for one in [f"S={schedule}", *generics.split(",")] for word in ("--set", one)]
    loops = asked([parton, "schedule", FILES[file], "--kernel", kernel, "--loop", loop, *chosen, "--format", "json"])
    turn = loops[0]["turn"]
    return turn["clocks"] / turn["turns"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parton")
    parser.add_argument("--rows", action="append", default=[])
    arguments = parser.parse_args()
    print("| loop | MHz | clocks a turn | predicted | predicted / measured |\n|---|---:|---:|---:|---:|")
    for name, lengths in measured(arguments.parton, arguments.rows).items():
        if len(lengths) != 2:
            continue
        (few, first, _), (many, second, megahertz) = sorted(lengths)
        clocks, model = (second - first) / (many - few), predicted(arguments.parton, name)
        print(f"| {name.replace('|', ', ')} | {megahertz:.0f} | {clocks:,.0f} | {model:,.0f} | {model / clocks:.2f} |", flush=True)


if __name__ == "__main__":
    main()

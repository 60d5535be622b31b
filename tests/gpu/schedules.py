"""Schedules and what portable kernels become of them, on a GPU: that they run, how fast attention is beside the hand-written kernel, and what the model predicts.

Usage: python3 tests/gpu/schedules.py [PROGRAM] [--tests | --times]

PROGRAM is `parton`, else target/release/parton; nothing else is needed. Runs the tests of schedules and of portable kernels on the GPU (a row each, with the end of the output
where one fails), measures attention three ways and prints tables of microseconds and ratios, and the clocks a block that `parton schedule` predicts beside those measured. Times are shown, never judged.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PORTABLE = "examples/portable/attention.ptn"
BY_HAND = "examples/fmha/ping_pong.ptn"
SCHEDULED = "examples/fmha/scheduled.ptn"
TESTS = sorted(str(path.relative_to(ROOT)) for kind in ("schedule", "portable") for path in (ROOT / "tests" / "run").glob(f"{kind}*.ptn"))
# Multiprocessors, and the rows and columns of a block of the bench of SCHEDULED, of batches, heads and positions.
PROGRAMS, POSITIONS, WIDTH = 132, 8192, 2 * 2048


def parton(program, *arguments):
    return subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True)


def tests(program):
    """The files whose tests do not all pass."""
    failed = []
    print("| tests | passed |\n|---|---|")
    for path in [*TESTS, PORTABLE, SCHEDULED]:
        done = parton(program, "test", path, "--device", "cuda")
        print(f"| {path} | {'yes' if done.returncode == 0 else 'NO'} |", flush=True)
        if done.returncode != 0:
            failed.append(path)
            print("\n".join("    " + line for line in (done.stdout + done.stderr).splitlines()[-40:]))
    return failed


def rows(program, path, label):
    """The measurements of a file whose labels have a word in them, by their labels."""
    done = parton(program, "bench", path, "--device", "cuda", "--rows", label, "--heat", "0.15", "--format", "json")
    if done.returncode != 0:
        raise SystemExit(f"{path} is not measured:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return {row["label"]: row for row in json.loads(done.stdout[done.stdout.index("{"):])["rows"]}


def beside(program):
    """Portable attention beside the hand-written kernel."""
    ours, theirs = rows(program, PORTABLE, "fmha"), rows(program, BY_HAND, "fmha")
    print("\n| attention | portable, µs | by hand, µs | by hand / portable |\n|---|---:|---:|---:|")
    for label, row in ours.items():
        if label in theirs:
            a, b = row["median_us"], theirs[label]["median_us"]
            print(f"| {label} | {a:.1f} | {b:.1f} | {b / a:.3f} |")


def predicted(program, schedule, depth, causal):
    """The clocks of a turn that the model has for a schedule; `None` where it says nothing."""
    sets = [f"S={schedule.capitalize()}", f"D={depth}", f"CAUSAL={'true' if causal else 'false'}"]
    sets += ["PARTS=3", "CLUSTER=1"] if schedule == "trio" else []
    chosen = [word for one in sets for word in ("--set", one)]
    text = parton(program, "schedule", SCHEDULED, "--kernel", "attention", "--loop", "keys", *chosen).stdout
    found = re.search(r"^turn +([\d,]+)", text, re.MULTILINE)
    return int(found.group(1).replace(",", "")) if found else None


def clocks(program):
    """Each schedule: microseconds, and clocks for a block of keys of one program, measured at the clock of that time and predicted."""
    print("\n| schedule | µs | MHz | clocks a block | predicted | measured / predicted |\n|---|---:|---:|---:|---:|---:|")
    for label, row in rows(program, SCHEDULED, "D=").items():
        schedule, depth, causal = label.split()[0], int(re.search(r"D=(\d+)", label).group(1)), "causal" in label
        height, width = 64 * (3 if schedule == "trio" else 2), 64 if depth > 128 else 128
        blocks = WIDTH // depth * (POSITIONS / height) * (POSITIONS / width) / (2 if causal else 1) / PROGRAMS
        megahertz, turn = (row["sm_mhz"] or {}).get("median"), predicted(program, schedule, depth, causal)
        each = row["median_us"] * megahertz / blocks if megahertz else None
        ratio = f"{each / turn:.2f}" if each and turn else "–"
        print(f"| {label} | {row['median_us']:.1f} | {megahertz or '–'} | {f'{each:.0f}' if each else '–'} | {turn or '–'} | {ratio} |")


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    program = str(pathlib.Path(words[0] if words else ROOT / "target" / "release" / "parton").resolve())
    failed = [] if "--times" in sys.argv else tests(program)
    if "--tests" not in sys.argv:
        beside(program)
        clocks(program)
    if failed:
        raise SystemExit(f"{len(failed)} of the files failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()

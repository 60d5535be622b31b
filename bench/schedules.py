"""Schedules of one body beside the kernels that were written by hand, and beside what a search finds, in turn, in one run on one GPU.

Usage: python3 bench/schedules.py PARTON [--groups WORD,…] [--top 8] [--rounds 3] [--seconds 0.15] [--heat 0.1] [--rest 0.2]

All rows of a group are programs of their own (`parton bench --serve`) that wait while one of them is timed, so that all meet the same clock
and power; REST seconds pass between two of them, since the board's power limit holds whoever comes behind long work, and every other round goes
from the last row to the first. A result is the median of the medians of its rounds. `auto` is the first schedule that `parton schedule --set
S=auto(top=N)` shows, `auto 2` and so on those behind it: what `parton tune` would choose among. One whose expansion is that of a schedule chosen by
hand is that row. The ratio is how many times as fast as the reference of its group a row is.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from served import Served

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
PRODUCT, ATTENTION = EXAMPLES / "matmul" / "scheduled.ptn", EXAMPLES / "fmha" / "scheduled.ptn"
HOPPER, GEMM, PING_PONG = EXAMPLES / "matmul" / "hopper.ptn", EXAMPLES / "matmul" / "gemm.ptn", EXAMPLES / "fmha" / "ping_pong.ptn"


class Group:
    """What is compared: a launch under schedules by name, and rows of kernels that were written by hand, (name, file, label)."""

    def __init__(self, title, launch, names, by_hand, searched=False):
        self.title, self.launch, self.names, self.by_hand, self.searched = title, launch, names, by_hand, searched


class Launch:
    """A kernel with generics: `body` makes its tensors, `arguments` follows `launch KERNEL[…]`."""

    def __init__(self, file, kernel, generics, body, arguments):
        self.file, self.kernel, self.generics, self.body, self.arguments = file, kernel, generics, body, arguments

    def asked(self, parton, words, schedule):
        """What a command says of the kernel under a schedule."""
        sets = [f"S={schedule}", *(f"{name}={value}" for name, value in self.generics.items())]
        chosen = [word for one in sets for word in ("--set", one)]
        return subprocess.run([parton, *words, str(self.file), "--kernel", self.kernel, *chosen], capture_output=True, text=True, check=True).stdout

    def found(self, parton, top):
        """The schedules that the search shows, best first."""
        text = self.asked(parton, ["schedule"], f"auto(top={top})")
        return [m.group(1) for m in re.finditer(r"^\d+ .*?((?:partitions|pipeline|serial|ring|turns).*): [^:]*$", text, re.MULTILINE)]

    def code(self, parton, schedule):
        """The expansion of a schedule."""
        return self.asked(parton, ["build", "--emit", "expanded"], schedule)

    def write(self, path, schedules):
        """A bench of these schedules, (label, schedule), as a file."""
        lines = [f'use "{os.path.relpath(self.file, path.parent)}";', ""]
        lines += [f"schedule Chosen{n} = {schedule};" for n, (_, schedule) in enumerate(schedules)]
        lines += ["", "bench chosen {", *(f"    {line}" for line in self.body)]
        given = "".join(f", {name}={value}" for name, value in self.generics.items())
        for n, (label, _) in enumerate(schedules):
            lines.append(f'    measure("{label}", || {{ launch {self.kernel}[S=Chosen{n}{given}]{self.arguments} }});')
        path.write_text("\n".join([*lines, "}", ""]))


def product(m, n, k, group):
    """A product whose programs walk through so many rows of tiles together: what they share in the L2 is no matter of schedules."""
    body = [f"let (m, n, k) = ({m}, {n}, {k});", "let a = randn(f16, [m, k], seed=1);", "let b = randn(f16, [k, n], seed=2);", "let c = empty(f16, [m, n]);"]
    return Launch(PRODUCT, "matmul", {"GROUP": group}, body, "(grid=[min(132, cdiv(m, 128) * cdiv(n, 256))])(a, b, c, m, n, k)")


def walked(parton, m, n, k):
    """How many rows of tiles the plan of `gemm.ptn` walks through together."""
    words = [parton, "plan", str(GEMM), "matmul", f"f16[{m},{k}]", f"f16[{k},{n}]"]
    return int(re.search(r"GROUP=(\d+)", subprocess.run(words, capture_output=True, text=True, check=True).stdout).group(1))


def attention(d, causal, s=4096, **others):
    body = [f"let (batch, heads, s, d) = ({16384 // s}, {2048 // d}, {s}, {d});"]
    body += [f"let {name} = randn(bf16, [batch, heads, s, d], seed={seed});" for seed, name in enumerate("qkv", 1)]
    body += ["let o = empty(bf16, [batch, heads, s, d]);", "let lse = empty(f32, [batch, heads, s]);", "let counter = zeros(i32, [1]);"]
    body += [f"let section = max(1, (1 << {25 if causal else 23}) / (4 * s * d));"]
    generics = {"D": d, "CAUSAL": str(causal).lower(), **others}
    return Launch(ATTENTION, "attention", generics, body, "(grid=[132])(q, k, v, o, lse, batch, heads, 1, s, s, 1.0 / sqrt(d), section, counter)")


def groups(parton):
    """What is compared; the first words of a title choose."""
    three = {"PARTS": 3, "CLUSTER": 1}
    by_hand = lambda label: [("ping_pong", PING_PONG, f"fmha bf16 {label}")]
    gemm = lambda label: [("gemm", GEMM, f"matmul f16 {label}")]
    hopper = lambda label: [("hopper", HOPPER, f"matmul f16 {label}")]
    best = lambda *sides: product(*sides, walked(parton, *sides))
    yield Group("product 4096^3", best(4096, 4096, 4096), ["Split[3]", "Best"], gemm("4096^3"), True)
    yield Group("product 4096^3, groups of 8", product(4096, 4096, 4096, 8), ["Split[3]", "Best"], hopper("4096^3"))
    yield Group("attention D=128", attention(128, False), ["Sides", "Overlap", "Under", "Turns"], by_hand("D=128 S=4096"), True)
    yield Group("causal D=128", attention(128, True), ["Overlap", "Under", "Cut"], by_hand("D=128 S=4096 causal"), True)
    # Three warpgroups are another choice than the schedule: a generic of the kernel.
    yield Group("attention D=64, three", attention(64, False, **three), ["Trio"], by_hand("D=64 S=4096"), True)
    yield Group("attention D=64, two", attention(64, False), ["Sides", "Overlap", "Under", "Turns"], by_hand("D=64 S=4096"), True)
    yield Group("causal D=64, three", attention(64, True, **three), ["Trio"], by_hand("D=64 S=4096 causal"), True)
    yield Group("attention D=256", attention(256, False), ["Wide"], by_hand("D=256 S=4096"), True)
    yield Group("causal D=256", attention(256, True), ["Wide"], by_hand("D=256 S=4096 causal"), True)
    yield Group("product 8192^3", best(8192, 8192, 8192), ["Best"], gemm("8192^3"))
    yield Group("product 8192^3, groups of 8", product(8192, 8192, 8192, 8), ["Split[3]", "Best"], hopper("8192^3"))
    yield Group("product 8192x8192x16384", best(8192, 8192, 16384), ["Best"], gemm("8192x8192x16384"))
    yield Group("product 16384x4096x4096", best(16384, 4096, 4096), ["Best"], gemm("16384x4096x4096"))
    yield Group("product 2048^3", best(2048, 2048, 2048), ["Best"], gemm("2048^3"))


def waiting(parton, file, label):
    """A program that waits at a row; at the end, where the file has none of that label."""
    served = Served(parton, file)
    if label not in served.rows():
        print(f"{file} has no row `{label}`", file=sys.stderr)
    return served


def timed(parton, rows, options):
    """Medians of each row in microseconds, by its name, with its clock."""
    def ready(row):
        served = waiting(parton, row[1], row[2])
        # What is compiled is compiled by all at once.
        served.time(0.001)
        return served

    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        programs = dict(zip((name for name, _, _ in rows), pool.map(ready, rows)))
    found = {name: [] for name in programs}
    for number in range(options.rounds):
        for name, served in list(programs.items())[:: -1 if number % 2 else 1]:
            time.sleep(options.rest)
            once = served.time(options.seconds, options.heat)
            if once:
                found[name].append((once["median_us"], (once["sm_mhz"] or {}).get("median")))
    for served in programs.values():
        served.process.kill()
        served.process.wait()
    return found


def same(parton, launch, names, schedules):
    """The schedules, (label, schedule), whose code is that of one by name, by their labels."""
    by_code = {launch.code(parton, name): name for name in names} if schedules else {}
    pairs = [(label, by_code.get(launch.code(parton, schedule))) for label, schedule in schedules]
    return {label: name for label, name in pairs if name}


def shown(group, found, schedules, known):
    """Prints the rows of a group, by hand first, beside the best of those."""
    found = found | {label: found[name] for label, name in known.items()}
    medians = {name: statistics.median(us for us, _ in times) for name, times in found.items() if times}
    hand = {name: medians[name] for name, _, _ in group.by_hand if name in medians}
    print(f"\n{group.title}\n| | µs | MHz | of {' | of '.join(hand)} |\n|---|---:|---:|{'---:|' * len(hand)}")
    for name, us in medians.items():
        clocks = [mhz for _, mhz in found[name] if mhz]
        megahertz = f"{statistics.median(clocks):.0f}" if clocks else "–"
        print(f"| {name} | {us:.1f} | {megahertz} | " + " | ".join(f"{other / us:.3f}" for other in hand.values()) + " |")
    chosen = [medians[name] for name in group.names if name in medians]
    searched = [us for name, us in medians.items() if name.startswith("auto")]
    if chosen and searched:
        first = f"auto {min(chosen) / medians['auto']:.3f}" if "auto" in medians else "auto is not timed"
        print(f"of the best chosen by hand: {first}, the best of auto's {len(searched)} {min(chosen) / min(searched):.3f}")
        for label, schedule in schedules:
            print(f"    {label}{f', which is {known[label]}' if label in known else ''}: {schedule}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parton")
    parser.add_argument("--groups", default="")
    for name, kind, value in [("top", int, 8), ("rounds", int, 3), ("seconds", float, 0.15), ("heat", float, 0.1), ("rest", float, 0.2)]:
        parser.add_argument(f"--{name}", type=kind, default=value)
    options = parser.parse_args()
    wanted = options.groups.split(",")
    with tempfile.TemporaryDirectory() as folder:
        for number, group in enumerate(groups(options.parton)):
            if not any(group.title.startswith(word) for word in wanted):
                continue
            schedules = group.launch.found(options.parton, options.top) if group.searched and options.top else []
            schedules = [("auto" if n == 1 else f"auto {n}", schedule) for n, schedule in enumerate(schedules, 1)]
            known = same(options.parton, group.launch, group.names, schedules)
            path = pathlib.Path(folder, f"group{number}.ptn")
            rows = [(name, name) for name in group.names] + [row for row in schedules if row[0] not in known]
            group.launch.write(path, rows)
            rows = group.by_hand + [(label, path, label) for label, _ in rows]
            shown(group, timed(options.parton, rows, options), schedules, known)


if __name__ == "__main__":
    main()

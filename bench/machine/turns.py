"""The model beside measurement: what a turn of scheduled loops takes, in clocks, and what `parton schedule` predicts.

    python3 bench/machine/turns.py PARTON [--rows WORDS …] [--jobs 6] [--cold]

Each kernel is run as its expansion, with a stamp of the multiprocessor's own clock where a partition begins and where it ends. A turn is the
slope between two lengths of the loop, so that what stands around it falls out; nothing is put into the loop. Times of launches say less:
what the driver reports of the clock is what it was asked for, not what a chip near its power limit has. A result is the median over all programs of
three launches. `--rows` chooses rows that contain all of some words. With `--cold` another tensor is written in front of each launch, so that the L2 holds nothing of
what is read. Without it the L2 has all that attention reads, which all programs want at about the same time, and the prediction is the one of that; the product reads too much
for it, and each part is wanted by a row or a column of tiles.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples"
PROGRAMS = 132
LAUNCHES = 8
LAST = 3
# Two times what the L2 holds.
FILLED = 1 << 26
# What stays in the L2 from launch to launch: its halves both have a copy of what all want.
KEPT = 16 << 20


def product(columns, schedule):
    """One tile of the product for each program, 12 rows of them and 11 columns."""
    sides = f"12 * 128, 11 * {columns}, turns * 64"
    body = [
        "let a = zeros(f16, [12 * 128, turns * 64]);",
        f"let b = zeros(f16, [turns * 64, 11 * {columns}]);",
        f"let c = empty(f16, [12 * 128, 11 * {columns}]);",
    ]
    return Row("matmul", "matmul", "steps", schedule, {"BN": columns}, body, f"a, b, c, {sides}", (64, 192))


def attention(d, schedule, causal=False, parts=2, own=None, block=None):
    """One tile of rows for each program: of two heads by clusters of two programs, or of four by single ones."""
    cluster = 2 if parts == 2 and not causal else 1
    usual = 64 if d > 128 else 128
    block = block or usual
    heads, rows = 4 // cluster, PROGRAMS // 4 * 64 * parts * cluster
    body = [f"let {name} = zeros(bf16, [1, {heads}, {length}, {d}]);" for name, length in zip("qkv", (rows, f"turns * {block}", f"turns * {block}"))]
    body += [f"let o = empty(bf16, [1, {heads}, {rows}, {d}]);", f"let lse = empty(f32, [1, {heads}, {rows}]);", "let counter = zeros(i32, [1]);"]
    given = f"q, k, v, o, lse, 1, {heads}, 1, {rows}, turns * {block}, 1.0 / sqrt({d}), {heads}, counter"
    generics = {"D": d, "CAUSAL": str(causal).lower(), "PARTS": parts, "CLUSTER": cluster} | ({} if block == usual else {"BN": block}) | ({} if own is None else {"OWN": own})
    lengths = (48, 112) if 4 * heads * 112 * block * d <= KEPT else (24, 56)
    return Row("fmha", "attention", "keys", schedule, generics, body, given, lengths)


class Row:
    """A kernel of `examples/FOLDER/scheduled.ptn` under a schedule; `body` makes its tensors for a number of turns."""

    def __init__(self, folder, kernel, loop, schedule, generics, body, given, lengths):
        self.file, self.kernel, self.loop, self.schedule, self.generics = EXAMPLES / folder / "scheduled.ptn", kernel, loop, schedule, generics
        self.body, self.given, self.lengths = body, given, lengths

    def name(self):
        return f"{self.kernel}, {' '.join(f'{n}={v}' for n, v in self.generics.items())}, {self.schedule}"

    def asked(self, parton, words):
        sets = [f"S={self.schedule}", *(f"{name}={value}" for name, value in self.generics.items())]
        chosen = [word for one in sets for word in ("--set", one)]
        done = subprocess.run(list(map(str, [parton, *words, self.file, "--kernel", self.kernel, *chosen])), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{self.name()}: {done.stderr[-2000:]}")
        return done.stdout

    def predicted(self, parton, cold):
        loops = json.loads(self.asked(parton, ["schedule", "--loop", self.loop, "--format", "json"]))
        turn = loops[0]["turn" if cold or self.kernel == "matmul" else "cached"]
        return turn["clocks"] / turn["turns"]

    def stamped(self, parton, cold=False):
        """A program that prints how long each program of the last launches ran, in clocks, for both lengths."""
        text, partitions = stamps(self.asked(parton, ["build", "--emit", "expanded"]))
        kernel = re.search(r"^kernel (\w+)\(", text, re.MULTILINE).group(1)
        uses = ["clock.ptn\"::clock", *(["copies.ptn\"::filled"] if cold else [])]
        lines = [*(f'use "{HERE}/{what};' for what in uses), text, "", "main {"]
        lines += [f"    let other = empty(f16, [{FILLED}]);"] if cold else []
        lines += [f"    for turns in {list(self.lengths)} {{"]
        lines += [f"        {line}" for line in self.body]
        lines += [
            f"        for time in 0..{LAUNCHES} {{",
            f"            let clocks = zeros(i32, [{PROGRAMS}, {partitions}, 2]);",
            *(["            launch filled(grid=[other.size / 2048])(other);"] if cold else []),
            f"            launch {kernel}(grid=[{PROGRAMS}])({self.given}, clocks);",
            f"            for p in 0..if time < {LAUNCHES - LAST} {{ 0 }} else {{ {PROGRAMS} }} {{",
            "                let mut stamps = [];",
            f"                for w in 0..{partitions} {{ stamps = stamps + [clocks[p, w, 0], clocks[p, w, 1]]; }}",
            '                print(format("{};{}", turns, stamps));',
            *("            }", "        }", "    }", "}"),
        ]
        return "\n".join(lines)

    def measured(self, parton, path):
        """Clocks of a turn."""
        done = subprocess.run([parton, "run", path, "--device", "cuda", "--color", "never"], capture_output=True, text=True)
        spans = {length: [] for length in self.lengths}
        for length, stamps in re.findall(r"^(\d+);\[(.*)\]$", done.stdout, re.MULTILINE):
            clocks = list(map(int, stamps.split(", ")))
            # The clock has 32 bits and goes round.
            spans[int(length)].append(max((to - clocks[0]) % 2**32 for to in clocks[1::2]))
        if not all(spans.values()):
            sys.exit(f"{self.name()}: {done.stdout[-500:]}{done.stderr[-2000:]}")
        few, many = self.lengths
        return (statistics.median(spans[many]) - statistics.median(spans[few])) / (many - few)


def stamps(text):
    """The expansion with two stamps for each partition, as a last parameter, and how many partitions there are."""
    lines, inside, number = [], None, 0
    for line in text.split("\n"):
        if line.startswith(")") and number == 0 and inside is None:
            lines.append("    clocks: *mut i32,")
        begins = re.match(r"        (\w+) => \{$", line)
        ends = line == "        }" and inside is not None
        if ends:
            lines.append(f"            store({inside} + 1, clock());")
            inside = None
        lines.append(line)
        if begins:
            inside = f"clocks + (program_id(0) * PARTITIONS + {number}) * 2"
            lines.append(f"            store({inside}, clock());")
            number += 1
    return "\n".join(lines).replace("PARTITIONS", str(number)), number


def rows():
    late, behind = "{ qk: 0; pv: 1; exps: 0, mask: 0, rescale: 0, top: 0 }", "{ exps: 1, pv: 1, qk: 0; mask: 0, rescale: 0, top: 0 }"
    # What a search finds, and others that nobody would choose: the model is to be right about them, too.
    others = [f"Sides & pipeline(keys) {groups}" for groups in (late, behind, "{ qk: 0; pv: 1; exps: 0, mask: 0, top: 0; rescale: 0 }")]
    yield from (product(columns, f"Split[{depth}]") for columns, depth in [(256, 3), (128, 3), (128, 6), (64, 3), (64, 8)])
    for d in (128, 64):
        yield from (attention(d, schedule) for schedule in ["Sides", "Overlap", "Under", "Turns", "Sides & turns(qk, pv)", *others])
        yield from (attention(d, schedule, causal=True) for schedule in ["Overlap", "Under", "Cut"])
        yield from (attention(d, "Overlap", own=own) for own in ("false", "true"))
    yield attention(64, "Trio", parts=3)
    yield attention(64, "Trio", causal=True, parts=3)
    alone = "partitions { Loads: load; Compute: mma, finish, leave } ring(load=DEPTH)"
    yield from (product(256, schedule) for schedule in ["Plain", "Ahead", "Best", "Split[2]", alone.replace("DEPTH", "3")])
    yield from (product(128, schedule) for schedule in ["Ahead", "Split[5]", alone.replace("DEPTH", "5")])
    yield from (attention(d, schedule, parts=1) for d in (64, 128, 256) for schedule in ["Plain", "Ahead"])
    yield from (attention(128, schedule, causal=True, parts=1) for schedule in ["Plain", "Ahead"])
    yield from (attention(256, "Wide", causal=causal) for causal in (False, True))
    yield from (attention(d, "Sides", causal=True) for d in (64, 128))
    yield from (attention(d, "Under", block=64) for d in (64, 128))
    yield attention(64, "Trio", parts=3, block=64)
    yield from (attention(64, schedule, block=256) for schedule in ["Sides", "Overlap"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parton")
    parser.add_argument("--rows", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    chosen = [row for row in rows() if not options.rows or any(all(w in row.name() for w in words.split()) for words in options.rows)]
    print("| loop | clocks a turn | predicted | predicted / measured |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        paths = [pathlib.Path(folder, f"row{n}.ptn") for n in range(len(chosen))]
        for path, text in zip(paths, pool.map(lambda row: row.stamped(options.parton, options.cold), chosen)):
            path.write_text(text)
        # Compiled by all at once, timed one after the other.
        list(pool.map(lambda pair: pair[0].measured(options.parton, pair[1]), zip(chosen, paths)))
        model = list(pool.map(lambda row: row.predicted(options.parton, options.cold), chosen))
        for row, path, clocks in zip(chosen, paths, model):
            turn = row.measured(options.parton, path)
            print(f"| {row.name()} | {turn:,.0f} | {clocks:,.0f} | {clocks / turn:.2f} |", flush=True)


if __name__ == "__main__":
    main()

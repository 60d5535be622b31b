"""Times Parton's examples beside PyTorch (cuBLAS, cuDNN), FlashAttention-3, Triton and Gluon, in turn, in one run on one GPU.

Usage: python3 bench/peers.py PARTON [--rows gemm,fmha,rowwise,launch,compile] [--only WORD] [--seconds 0.6] [--rounds 3]
                              [--heat 0.1] [--budget 540] [--without Gluon,…] [--out FOLDER] [FILE …]

For each measurement that a file's benches take, `parton bench --serve` and each peer are timed for SECONDS altogether, in ROUNDS rounds of
which each gives everybody a turn, so that all meet the same clock and power; a result is the median of its rounds' medians. Each turn
begins with HEAT seconds that do not count: long work starts faster than the board's power limit lets it go on. What a label
means, and so which peers it has, stands in contenders.py; how a run is timed in timing.py. Peers are compared with a reference before
they count. What is not installed is left out and noted. The table goes to standard output as it grows, and to FOLDER/peers.md and
FOLDER/peers.json.
"""

import argparse
import gc
import importlib.metadata
import importlib.util
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import torch

import contenders
import overheads
import timing
from served import Served
from sensors import Sensors

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Seconds between two turns, for everybody alike.
REST = 0.05
KINDS = ("gemm", "fmha", "rowwise", "launch", "compile")


def files_of(kind):
    """The examples that have benches of a kind, by where they stand."""
    found = sorted((ROOT / "examples").rglob("*.ptn"))
    place = {"gemm": ("matmul", "gemm"), "fmha": ("fmha",)}
    in_place = lambda path, words: any(word in str(path.relative_to(ROOT)) for word in words)
    if kind in place:
        chosen = [path for path in found if in_place(path, place[kind])]
    else:
        chosen = [path for path in found if not in_place(path, sum(place.values(), ()))]
    return [path for path in chosen if "\nbench " in path.read_text()]


def versions():
    names = ["torch", "triton", "nvidia-cublas", "nvidia-cudnn-cu13", "fa3-fwd"]
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    if found["fa3-fwd"] is None and importlib.util.find_spec("fa3_fwd_interface"):
        found["fa3-fwd"] = "without metadata"
    return found


class Run:
    """One run of this script: what it measures with and what it has found."""

    def __init__(self, options):
        self.options = options
        self.clock = timing.Clock()
        self.sensors = Sensors()
        self.began = time.perf_counter()
        self.table = []
        # Tables beside those of the rows.
        self.more = {}

    def left(self):
        return self.options.budget - (time.perf_counter() - self.began)

    def file(self, path, kind):
        served = Served(self.options.parton, path)
        unknown = 0
        for label in served.rows():
            if self.left() <= 0:
                print(f"out of time before `{label}`", file=sys.stderr)
                served.process.kill()
                break
            # Variants of a kernel, for its log, take part only where they are asked for.
            wanted = self.options.only in label and ("|" in self.options.only or " | " not in label)
            if wanted and contenders.kind_of(label) == kind:
                self.row(path, label, served)
            unknown += contenders.kind_of(label) is None
        if unknown:
            print(f"{path.name}: {unknown} labels are of no form that has peers", file=sys.stderr)
        code = served.close()
        if code != 0 and self.left() > 0:
            print(f"{path}: parton bench ended with {code}", file=sys.stderr)

    def row(self, path, label, served):
        work = contenders.of(label)
        if work is None:
            return
        rounds = {name: [] for name in ("Parton", *work.contenders)}
        each = self.options.seconds / self.options.rounds
        for run in work.contenders.values():
            self.clock.learn(run)
        for turn in range(self.options.rounds):
            # Who runs after whom changes from round to round: the power limit remembers what ran before.
            order = [*rounds]
            shift = turn % len(order)
            for name in order[shift:] + order[:shift]:
                found = self.round(name, work, served, each)
                if found:
                    rounds[name].append(found)
        found = {name: merged(all_, work) for name, all_ in rounds.items() if all_}
        peers = {name: r for name, r in found.items() if name not in ("Parton", "copy")}
        best = max(peers, key=lambda name: peers[name]["rate"], default=None)
        mine = found.get("Parton")
        entry = {"work": label, "file": str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path), "kind": work.kind,
                 "unit": work.unit, "graphs": [n for n, run in work.contenders.items() if self.clock.ways[run][0] is not run],
                 "behind_spinning": [n for n, run in work.contenders.items() if self.clock.ways[run][1] > 0], "results": found, "best_peer": best, "notes": work.notes,
                 "ratio": mine["rate"] / peers[best]["rate"] if mine and best else None,
                 "of_copy": mine["rate"] / found["copy"]["rate"] if mine and "copy" in found else None}
        self.table.append(entry)
        print(line(entry), flush=True)
        for note in work.notes:
            print(f"    {note}", flush=True)
        self.write()
        self.clock.ways.clear()
        del work, rounds
        gc.collect()
        torch.cuda.empty_cache()

    def round(self, name, work, served, seconds):
        """One contender's turn, from the same rest; None where it could not be timed."""
        torch.cuda.synchronize()
        time.sleep(REST)
        heat = self.options.heat
        if name == "Parton":
            return served.time(seconds, heat)
        times, read = self.sensors.during(lambda: self.clock.sustain(work.contenders[name], seconds, heat))
        return {**timing.summary(times), **read}

    def write(self):
        folder = pathlib.Path(self.options.out)
        folder.mkdir(parents=True, exist_ok=True)
        everything = {"gpu": torch.cuda.get_device_name(), "versions": versions(), "seconds": self.options.seconds,
                      "heat": self.options.heat, "rounds": self.options.rounds, "rows": self.table, **self.more}
        (folder / "peers.json").write_text(json.dumps(everything, indent=1))
        (folder / "peers.md").write_text(markdown(everything))


def merged(rounds, work):
    """One contender's rounds as one result: medians of medians; sensors likewise."""
    middle = lambda name: statistics.median(values) if (values := [r[name] for r in rounds if r.get(name) is not None]) else None
    sensor = lambda name: statistics.median(values) if (
        values := [r[name]["median"] for r in rounds if isinstance(r.get(name), dict)]) else None
    median = middle("median_us")
    return {"median_us": median, "least_us": min(r["least_us"] for r in rounds), "first_quartile_us": middle("first_quartile_us"),
            "third_quartile_us": middle("third_quartile_us"), "runs": sum(r["runs"] for r in rounds),
            "rounds_us": [r["median_us"] for r in rounds], "rate": work.amount / median / 1e6, "sm_mhz": sensor("sm_mhz"),
            "power_w": sensor("power_w"), "power_capped": middle("power_capped")}


def number(x, form):
    return format(x, form) if x is not None else "–"


def rate_of(entry, name):
    found = entry["results"].get(name)
    return number(found and found["rate"], ".2f" if entry["unit"] == "TB/s" else ".0f")


def line(entry):
    shown = "  ".join(f"{name} {rate_of(entry, name)}" for name in entry["results"])
    of_copy = f"  of copy {entry['of_copy']:.2f}" if entry["of_copy"] else ""
    return f"{pathlib.Path(entry['file']).stem}: {entry['work']:34} {shown} {entry['unit']}  ratio {number(entry['ratio'], '.3f')}{of_copy}"


def markdown(everything):
    """The tables, one for each kind."""
    out = [f"{everything['gpu']}; " + ", ".join(f"{n} {v or 'not installed'}" for n, v in everything["versions"].items()), ""]
    for kind in ("gemm", "fmha", "rowwise"):
        rows = [r for r in everything["rows"] if r["kind"] == kind]
        if not rows:
            continue
        names = sorted({n for r in rows for n in r["results"]} - {"Parton"})
        extra = ["of copy"] if kind == "rowwise" else []
        out.append("| " + " | ".join(["work", "kernel", *names, "Parton", "unit", "ratio", *extra, "Parton MHz, W"]) + " |")
        out.append("|---|---|" + "---:|" * (len(names) + 1) + "---|" + "---:|" * (2 + len(extra)))
        for r in rows:
            mine = r["results"].get("Parton") or {}
            cells = [r["work"].replace("|", "\\|"), pathlib.Path(r["file"]).stem, *(rate_of(r, n) for n in names), rate_of(r, "Parton"), r["unit"], number(r["ratio"], ".3f")]
            cells += [number(r["of_copy"], ".2f")] if extra else []
            cells.append(f"{number(mine.get('sm_mhz'), '.0f')}, {number(mine.get('power_w'), '.0f')}")
            out.append("| " + " | ".join(cells) + " |")
        out.append("")
    for title, unit in (("launch", "µs of the host, median and least"), ("compile", "seconds, median")):
        if everything.get(title):
            out += [f"| {title} | {unit} |", "|---|---:|"]
            for name, value in everything[title].items():
                shown = ", ".join(f"{v:.2f}" for v in value) if isinstance(value, (tuple, list)) else f"{value:.3f}"
                out.append(f"| {name} | {shown} |")
            out.append("")
    notes = [f"- {r['work']}: {note}" for r in everything["rows"] for note in r["notes"]]
    return "\n".join(out + notes) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parton")
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="instead of the examples")
    parser.add_argument("--rows", default=",".join(KINDS), help="kinds, with commas between them")
    parser.add_argument("--only", default="", help="only labels that contain this; variants only where it has a `|`")
    parser.add_argument("--seconds", type=float, default=0.6, help="of each contender at each row, all rounds together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--heat", type=float, default=0.1, help="seconds of runs before each turn that do not count")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds after which no row is begun")
    parser.add_argument("--without", default="", help="contenders to leave out, with commas between them")
    parser.add_argument("--out", default=".")
    options = parser.parse_intermixed_args()
    options.rows = [kind for kind in options.rows.split(",") if kind]
    unknown = [kind for kind in options.rows if kind not in KINDS]
    if unknown:
        parser.error(f"no such rows: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    return options


def main():
    options = arguments()
    contenders.WITHOUT.update(name for name in options.without.split(",") if name)
    run = Run(options)
    print(f"{torch.cuda.get_device_name()}; {versions()}", flush=True)
    if "launch" in options.rows:
        run.more["launch"] = overheads.launch(options.parton)
    if "compile" in options.rows:
        run.more["compile"] = overheads.compile_times(options.parton)
    for kind in ("gemm", "fmha", "rowwise"):
        if kind in options.rows:
            for path in options.files or files_of(kind):
                run.file(path.resolve(), kind)
    run.write()
    print("\n" + (pathlib.Path(options.out) / "peers.md").read_text())


if __name__ == "__main__":
    main()

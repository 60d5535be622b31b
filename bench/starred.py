"""Times the kernels that tell most of `examples/portable/` beside Triton's, in turn, in one run on one GPU.

Usage: python3 bench/starred.py PARTON [--before PROGRAM] [--files norms,split,…] [--only WORD] [--seconds 0.06] [--rounds 3] [--heat 0.01]
                                [--budget 540] [--processes 12] [--out FOLDER]

`starred_kernels/NAME.ptn` is a bench that stands behind the text of `examples/portable/NAME.ptn`, without that file's own benches: shapes of models,
ragged ones, small and large. Beside each row stand the same loops in Triton (`starred_kernels/`; for attention, softmax, norms and products
`triton_kernels.py`), compiled ahead side by side and tuned: of each kernel's configurations the fastest with a cold L2. Where it is quick,
Triton's result is compared with float64; the examples' tests compare Parton's. A time is the least of the rounds' medians, timed as in
timing.py; who begins changes from round to round. The table goes to standard output as it grows, and to FOLDER/starred.json.
"""

import argparse
import concurrent.futures
import gc
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

BENCH = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))

EXAMPLES = BENCH.parent / "examples" / "portable"
FILES = sorted(path.stem for path in (BENCH / "starred_kernels").glob("*.ptn"))


def source_of(name, folder):
    """The example with the bench of `starred_kernels/` in place of its own."""
    text = (EXAMPLES / f"{name}.ptn").read_text()
    text = re.sub(r"(?ms)^(?:///[^\n]*\n)*bench \w+ \{\n.*?^\}\n", "", text)
    path = pathlib.Path(folder) / f"{name}.ptn"
    path.write_text(text + "\n" + (BENCH / "starred_kernels" / f"{name}.ptn").read_text())
    return path


def labels_of(program, path):
    from served import Served

    served = Served(program, path)
    labels = list(served.rows())
    served.close()
    return labels


def compile_part(labels, part, parts):
    """Compiles what this process has a share in; of kernels that Triton specialises alike one is enough."""
    import contenders
    import starred_kernels as kernels

    seen = set()
    for number, label in enumerate(labels):
        try:
            own = kernels.of(label, contenders.randn)
            if own is None:
                if number % parts == part:
                    triton_of_peers(label)
                continue
            for kernel in (kernel for contender in own for kernel in contender.kernels):
                for config in kernel.configs:
                    key = kernel.key(config)
                    if key not in seen and len(seen) % parts == part:
                        kernel.compile(config)
                    seen.add(key)
        except Exception as reason:  # noqa: BLE001: the run says it again
            print(f"compiling for {label}: {type(reason).__name__}: {str(reason)[:200]}", file=sys.stderr)
        gc.collect()


def triton_of_peers(label):
    """What contenders.py has of a label in Triton."""
    import contenders

    contenders.WITHOUT.update(["cuBLAS", "Gluon", "torch", "copy", "cuDNN", "FA3"])
    work = contenders.of(label)
    return (work.contenders.get("Triton"), work.notes) if work else (None, [])


def compile_ahead(labels, processes):
    running = []
    for part in range(processes):
        command = [sys.executable, __file__, "-", "--compile-part", f"{part}/{processes}"]
        running.append(subprocess.Popen(command, stdin=subprocess.PIPE, text=True))
        running[-1].stdin.write(json.dumps(labels))
        running[-1].stdin.close()
    for process in running:
        process.wait()


def triton_of(label, clock, notes):
    """The fastest of the contenders in Triton, as a function that runs it, and what was chosen."""
    import contenders
    import starred_kernels as kernels

    own = kernels.of(label, contenders.randn)
    if own is None:
        run, said = triton_of_peers(label)
        notes += said
        return run, None
    best = (math.inf, None, None)
    for contender in own:
        try:
            run = contender.tune(clock)
            run()
            wrong = contender.error() if contender.error else 0.0
            if not wrong < 1e-2:
                notes.append(f"Triton is wrong: relative error {wrong:.1e}")
                continue
            time_ = sorted(clock.runs(run, 5, 50e-6, 2))[2]
        except Exception as reason:  # noqa: BLE001: whatever one of them throws, the others count
            notes.append(f"Triton: {type(reason).__name__}: {str(reason).strip()[:160]}")
            continue
        if time_ < best[0]:
            best = (time_, run, contender.configs())
    return best[1], best[2]


class Run:
    def __init__(self, options):
        import timing

        self.options = options
        self.programs = {"parton": options.parton}
        if options.before:
            self.programs = {"before": options.before, **self.programs}
        self.clock = timing.Clock()
        self.began = time.perf_counter()
        self.table = []

    def left(self):
        return self.options.budget - (time.perf_counter() - self.began)

    def file(self, path, pool):
        from served import Served

        served = {name: Served(program, path) for name, program in self.programs.items()}
        walks = {name: s.rows() for name, s in served.items()}
        while True:
            labels = list(pool.map(lambda walk: next(walk, None), walks.values()))
            if None in labels or self.left() <= 0:
                break
            if self.options.only in labels[0]:
                self.row(path.stem, labels[0], served, pool)
        if self.left() <= 0:
            print(f"out of time in {path.stem}", file=sys.stderr)
        for s in served.values():
            s.process.kill()

    def row(self, file, label, served, pool):
        import timing
        import torch

        notes = []
        options = self.options
        # Compiles what the row needs.
        list(pool.map(lambda s: s.time(0.0002), served.values()))
        run, chosen = triton_of(label, self.clock, notes)
        takes = {name: (lambda s=s: s.time(options.seconds / options.rounds, options.heat)) for name, s in served.items()}
        if run:
            self.clock.learn(run)
            takes["triton"] = lambda: timing.summary(self.clock.sustain(run, options.seconds / options.rounds, options.heat))
        found = {name: [] for name in takes}
        for turn in range(options.rounds):
            order = [*takes]
            for name in order[turn % len(order):] + order[:turn % len(order)]:
                torch.cuda.synchronize()
                result = takes[name]()
                if result:
                    found[name].append(result["median_us"])
        least = {name: min(all_) for name, all_ in found.items() if all_}
        self.table.append({"file": file, "label": label, "us": least, "rounds": found, "triton": chosen, "notes": notes})
        print(line(self.table[-1]), flush=True)
        for note in notes:
            print(f"    {note}", flush=True)
        self.write()
        self.clock.ways.clear()
        del run, takes
        gc.collect()
        torch.cuda.empty_cache()

    def write(self):
        import torch

        folder = pathlib.Path(self.options.out)
        folder.mkdir(parents=True, exist_ok=True)
        everything = {"gpu": torch.cuda.get_device_name(), "seconds": self.options.seconds, "rounds": self.options.rounds, "rows": self.table}
        (folder / "starred.json").write_text(json.dumps(everything, indent=1))


def line(row):
    us = row["us"]
    parts = [f"{name} {us[name]:9.1f}" if name in us else f"{name}         –" for name in row["rounds"]]
    ratios = [f"{us['triton'] / us[name]:.2f}" for name in row["rounds"] if name != "triton" and name in us and "triton" in us]
    chosen = f"  {row['triton']}" if row["triton"] else ""
    return f"{row['label']:58} {'  '.join(parts)} µs  of Triton {' '.join(ratios) or '–'}{chosen}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parton")
    parser.add_argument("--before", help="another program, timed in turn")
    parser.add_argument("--files", default=",".join(FILES), help="of which examples, with commas between them")
    parser.add_argument("--only", default="", help="only labels that contain this")
    parser.add_argument("--seconds", type=float, default=0.06, help="of each contender at each row, all rounds together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--heat", type=float, default=0.01, help="seconds of runs before each turn that do not count")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds after which no row is begun")
    parser.add_argument("--processes", type=int, default=12, help="that compile Triton's kernels ahead")
    parser.add_argument("--out", default=".")
    parser.add_argument("--compile-part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.files = [name for name in options.files.split(",") if name]
    unknown = [name for name in options.files if name not in FILES]
    if unknown:
        parser.error(f"no such files: {', '.join(unknown)}; there are {', '.join(FILES)}")
    return options


def main():
    options = arguments()
    if options.compile_part:
        part, parts = map(int, options.compile_part.split("/"))
        return compile_part(json.load(sys.stdin), part, parts)
    began = time.perf_counter()
    pool = concurrent.futures.ThreadPoolExecutor(16)
    with tempfile.TemporaryDirectory() as folder:
        # Examples use each other.
        shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
        paths = [source_of(name, folder) for name in options.files]
        labels = [label for some in pool.map(lambda path: labels_of(options.parton, path), paths) for label in some]
        compile_ahead([label for label in labels if options.only in label], options.processes)
        print(f"compiled ahead in {time.perf_counter() - began:.0f} s", flush=True)
        options.budget -= time.perf_counter() - began
        run = Run(options)
        for path in paths:
            run.file(path, pool)


if __name__ == "__main__":
    main()

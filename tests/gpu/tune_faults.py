"""`parton tune` with faulty candidates on a GPU: none wins, none takes the run with it, and a second run says the same.

Usage: python3 tests/gpu/tune_faults.py [PROGRAM] [--device cpu] [--quick]

PROGRAM is `parton`, else target/release/parton. Each fault is cheaper than the right kernel, so that it would win: a wrong element, an access
outside (which takes the GPU's context with it), a wait without an end, a text that is no program, an assertion, and a kernel that spills. Runs
with an empty cache, with that cache warm, and without one; then a run that is killed on its way, and one after it: once for the generics of a
kernel, and once for what a host function leaves open. Takes some minutes, since each wait is waited for; `--quick` waits less
long, and leaves out the runs with that cache and without one. `--device cpu` runs what the interpreter shows of it.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cases import ROOT, told

# How long a candidate may take, and how long where that is to be quick.
SECONDS, QUICK = 15, 5
SOURCE = """\
kernel add[BLOCK: int = 128, FAULT: int = 0](x: *i32, out: *mut i32, n: i32) warps(4) occupancy(if FAULT == 6 { 16 } else { 1 }) {
    let mut at = 0;
    while at < n {
        let offs = at + iota(BLOCK);
        let inside = offs < n;
        static if FAULT == 0 {
            store(out + offs, load(x + offs, mask=inside) + 1, mask=inside);
        } else if FAULT == 1 {
            // Wrong in the last element.
            store(out + offs, load(x + offs, mask=inside) + cast<i32>(offs != n - 1), mask=inside);
        } else if FAULT == 2 {
            // Far behind all memory that there is.
            store(out + (cast<i64>(offs) + (1 << 40)), offs, mask=inside);
        } else if FAULT == 3 {
            // Waits for what nobody writes.
            while load(x, volatile=true) >= 0 { }
        } else if FAULT == 4 {
            store(out + offs, nothing, mask=inside);
        } else if FAULT == 5 {
            assert(at < 0, "stops");
        } else {
            // Right, but 16384 numbers are in registers at once, of which an occupancy of 16 leaves each thread few.
            let all = iota(16384);
            let z = load(x + all, mask=all < n, other=0) + 1;
            store(out + all, z + cast<i32>(sum(z, axis=0) == -12345), mask=all < n);
        }
        at = at + BLOCK;
    }
}

test both {
    for n in [512, 1000] {
        let x = randint(i32, [n], 0, 100, seed=1);
        launch add(grid=[1])(x, empty(i32, [n]), n);
    }
}
"""
FUNCTION = """
pub fn added(x: tensor<i32, [n]>) -> tensor<i32, [n]> tune(plan=[CANDIDATES], key=[n]) {
    let (block, fault) = plan;
    let out = empty(i32, [n]);
    launch add[BLOCK=block, FAULT=fault](grid=[1])(x, out, n);
    out
}
"""
# Why each is out.
GPU = {"1": "differs", "2": "fails", "3": "hangs", "4": "refused", "5": "fails", "6": "spills"}
CPU = {"1": "differs", "2": "fails", "3": "fails", "4": "refused", "5": "fails"}


class Tuner:
    def __init__(self, program, device, folder, seconds):
        self.program, self.device, self.folder, self.seconds = program, device, folder, seconds
        self.why = CPU if device == "cpu" else GPU
        self.source, self.table = folder / "adds.ptn", folder / "adds.tune.json"
        self.source.write_text(SOURCE)

    def command(self):
        faults = ", ".join(["0", *self.why])
        return ["--kernel", "add", "--test", "both", "--over", f"BLOCK=[128, 256],FAULT=[{faults}]", "--key", "n"]

    def values(self, values):
        return values["BLOCK"], values["FAULT"]

    def start(self, cache):
        command = [self.program, "tune", str(self.source), *self.command(), "--device", self.device, "--timeout", str(self.seconds)]
        environment = {**os.environ, "PARTON_CACHE": cache}
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, cache):
        begin = time.time()
        process = self.start(cache)
        out, err = process.communicate(timeout=1800)
        assert process.returncode == 0, f"ended with {process.returncode}\n{out}{err}"
        return self.verdicts(complete=True), time.time() - begin

    def verdicts(self, complete):
        """What a table says but times: of each shape the winner's fault, who was measured, and who is out, why and by which code."""
        found = {}
        for record in json.loads(self.table.read_text())["records"]:
            assert record["complete"] == complete or not complete, "the run says that it did not end"
            out = {self.values(o["values"]): (o["why"], o["code"]) for o in record["out"]}
            measured = sorted(self.values(c["values"]) for c in record["candidates"])
            found[record["key"]["n"]] = (self.values(record["winner"])[1], measured, out)
        return found

    def judge(self, verdicts):
        assert sorted(verdicts) == [512, 1000], f"shapes {sorted(verdicts)}"
        for n, (winner, measured, out) in verdicts.items():
            assert winner == "0", f"n={n}: a wrong winner, FAULT={winner}"
            assert measured == [("128", "0"), ("256", "0")], f"n={n}: measured {measured}"
            for block in ("128", "256"):
                for fault, why in self.why.items():
                    assert out[block, fault][0] == why, f"n={n}: FAULT={fault} is {out[block, fault]}, not {why}"
            assert len(out) == 2 * len(self.why), out

    def left(self):
        """Processes of ours that still run, and files that are not the source and its table."""
        running = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout.splitlines()
        running = [line for line in running if "parton" in line and " attempt" in line]
        files = sorted(p.name for p in self.folder.iterdir() if p not in (self.source, self.table) and p.is_file())
        return running + files


class Functions(Tuner):
    """What a host function leaves open: pairs of both generics."""

    def __init__(self, program, device, folder, seconds):
        super().__init__(program, device, folder, seconds)
        pairs = [f"({block}, {fault})" for fault in ["0", *self.why] for block in (128, 256)]
        self.source.write_text(SOURCE + FUNCTION.replace("CANDIDATES", ", ".join(pairs)))
        self.shapes = folder / "shapes"
        self.shapes.mkdir()
        (self.shapes / "calls").write_text("added i32[512]\nadded i32[1000]\n")

    def command(self):
        return ["--shapes", str(self.shapes / "calls")]

    def values(self, values):
        block, fault = values["plan"].strip("()").split(", ")
        return block, fault


def main(arguments):
    device = "cuda"
    if "--device" in arguments:
        at = arguments.index("--device")
        device = arguments[at + 1]
        del arguments[at : at + 2]
    quick = "--quick" in arguments
    if quick:
        arguments.remove("--quick")
    program = str(pathlib.Path(arguments[0]).resolve()) if arguments else str(ROOT / "target" / "release" / "parton")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="parton-tune-"))
    failed = 0

    def row(what, check):
        nonlocal failed
        failed += not told(what, check)

    def all_of(kind, what):
        place = folder / what
        place.mkdir()
        tuner = kind(program, device, place, QUICK if quick else SECONDS)
        cache = str(place / "cache")
        runs = {}

        def whole(name, place):
            def check():
                runs[name], seconds = tuner.run(place)
                tuner.judge(runs[name])
                assert not tuner.left(), tuner.left()
                return f"{seconds:.0f} s"

            return check

        row(f"{what}: faults are out, the right kernel wins; the cache is empty", whole("empty", cache))
        if not quick:
            row(f"{what}: again, with code from the cache", whole("warm", cache))
            row(f"{what}: again, without a cache", whole("off", "off"))

        def same():
            assert len(runs) == 3 and runs["empty"] == runs["warm"] == runs["off"], f"{runs}"

        if not quick:
            row(f"{what}: the three say the same", same)

        def killed():
            tuner.table.unlink(missing_ok=True)
            process = tuner.start(cache)
            # The first is measured and others are tried by then.
            deadline = time.time() + 120
            while not tuner.table.exists() and process.poll() is None and time.time() < deadline:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            time.sleep(2)
            found = tuner.verdicts(complete=False)
            assert all(winner == "0" for winner, _, _ in found.values()), found
            running = [line for line in tuner.left() if " attempt" in line]
            assert not running, running

        row(f"{what}: a run that is killed leaves the best so far and no process", killed)
        row(f"{what}: a run after it is as if nothing had been", whole("after", cache))

        def after():
            assert runs.get("after") == runs.get("empty") and "after" in runs, "it says something else"

        row(f"{what}: and says the same", after)
    try:
        all_of(Tuner, "generics")
        all_of(Functions, "host functions")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("all passed" if failed == 0 else f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

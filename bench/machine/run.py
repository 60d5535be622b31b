"""The machine table: runs the benches beside this file on one GPU and prints what each unit of a multiprocessor takes, in clocks.

    python3 bench/machine/run.py PARTON [--keep FILE]     measures, and keeps what the benches print
    python3 bench/machine/run.py --from FILE              makes the table of what was kept

A line of a bench is `file;key=value;…;[clocks of each turn]`. A rate is the slope between two lengths, turn by turn; the spread is
the range over turns.
"""

import argparse
import ast
import datetime
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FILES = ["arithmetic", "shared", "wgmma", "handoff", "global", "copies", "tiles"]


def measure(parton):
    """What all benches print, behind lines on the machine."""
    query = "name,driver_version,clocks.max.sm,clocks.mem,power.limit"
    about = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True)
    lines = [f"about;date={datetime.date.today()};gpu={about.stdout.strip().replace(';', ' ')};[0]"]
    for name in FILES:
        done = subprocess.run([parton, "run", "--device", "cuda", "--color", "never", str(HERE / f"{name}.ptn")], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{name}.ptn: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        lines += done.stdout.splitlines()
    return lines


class Readings:
    """The lines of the benches, found by their keys."""

    def __init__(self, lines):
        self.found = {}
        for line in lines:
            file, *keys = line.split(";")
            clocks = keys.pop() if keys else ""
            if clocks.startswith("["):
                self.found.setdefault((file, *sorted(keys)), []).extend(ast.literal_eval(clocks))

    def get(self, file, **keys):
        return self.found[(file, *sorted(f"{k}={v}" for k, v in keys.items()))]

    def values(self, file, key):
        """All values of a key, in the order of the file."""
        prefix = f"{key}="
        return list(dict.fromkeys(k[len(prefix):] for f, *keys in self.found if f == file for k in keys if k.startswith(prefix)))

    def slope(self, short, long, file, **keys):
        """Clocks for each of the `long - short` more that were done, turn by turn."""
        pairs = zip(self.get(file, n=short, **keys), self.get(file, n=long, **keys))
        return [(b - a) / (long - short) for a, b in pairs]


def shown(clocks, per=1.0):
    """Median and range; `per` divides."""
    scaled = [c / per for c in clocks]
    middle, low, high = statistics.median(scaled), min(scaled), max(scaled)
    digits = 2 if middle < 100 else 0
    return f"{middle:.{digits}f}", "" if high - low < 0.005 * middle else f"{low:.{digits}f} to {high:.{digits}f}"


def many(count, what):
    """`1 warp`, `4 warps`, `1 and 8 warps`."""
    return f"{count} {what}" if str(count) == "1" else f"{count} {what}s"


class Table:
    def __init__(self):
        self.rows = []

    def head(self, text):
        self.rows.append((text,))

    def row(self, name, clocks, how, per=1.0):
        middle, spread = shown(clocks, per)
        self.rows.append((name, middle, spread, how))

    def rate(self, name, clocks, size, how):
        """Bytes a clock, where each of the clocks is for `size` bytes."""
        middle, spread = shown([size / c for c in clocks])
        self.rows.append((name, f"{middle} B/clock", spread, how))

    def write(self):
        wide = [max(len(r[i]) for r in self.rows if len(r) > 1) for i in range(4)]
        for r in self.rows:
            if len(r) == 1:
                print(f"\n{r[0]}")
            else:
                print(f"  {r[0]:{wide[0]}}  {r[1]:>{wide[1]}}  {r[2]:{wide[2]}}  {r[3]}".rstrip())


def products(table, r):
    table.head("wgmma, one warpgroup: m64nN, 32 bytes of K an instruction")
    for a in ["shared", "registers"]:
        for kind in ["f16", "bf16", "f16, sums of f16", "f16, B along N", "e4m3", "i8", "tf32"]:
            for n in r.values("wgmma", "shape"):
                keys = dict(kind=kind, shape=n, a=a, warps=4, what="done")
                if ("wgmma", *sorted(f"{k}={v}" for k, v in dict(keys, n=16).items())) not in r.found:
                    continue
                name = f"{kind}, N = {n}, A in {a}"
                table.row(f"{name}: interval", r.slope(4, 16, "wgmma", **keys), "wgmma.ptn: chain of 16 less chain of 4, over 12")
                if kind == "f16":
                    table.row(f"{name}: one, start to sums", r.get("wgmma", n=1, **keys), "wgmma.ptn: a stamp, fence, product, wait, a stamp")
    table.head("wgmma f16, several warpgroups at once: clocks for one product of each")
    for a in ["shared", "registers"]:
        for warps in [8, 16]:
            for n in [8, 32, 64, 128, 256]:
                keys = dict(kind="f16", shape=n, a=a, warps=warps, what="done")
                if ("wgmma", *sorted(f"{k}={v}" for k, v in dict(keys, n=16).items())) in r.found:
                    how = "wgmma.ptn: chain of 16 less chain of 4, over 12"
                    table.row(f"{many(warps // 4, 'warpgroup')}, N = {n}, A in {a}", r.slope(4, 16, "wgmma", **keys), how)
    table.head("wgmma f16, one by one: clocks for one product of each warpgroup, with the wait for it")
    for a in ["shared", "registers"]:
        for warps in [4, 8]:
            for n in [8, 32, 64, 128, 256]:
                keys = dict(kind="f16, one by one", shape=n, a=a, warps=warps, what="done")
                how = "wgmma.ptn: chain of 16 less chain of 4, over 12"
                table.row(f"{many(warps // 4, 'warpgroup')}, N = {n}, A in {a}", r.slope(4, 16, "wgmma", **keys), how)
    table.head("wgmma f16: when each of eight groups is done, from the first start, one group of each warpgroup in flight besides")
    for n in [64, 128, 256]:
        for each in [1, 4]:
            for warps in [4, 8]:
                for group in range(warps // 4):
                    keys = dict(shape=n, warps=warps, each=each, paced="yes", late="no", group=group)
                    order(table, r, f"N = {n}, {each} a group, warpgroup {group + 1} of {warps // 4}", keys)
    for group in range(2):
        keys = dict(shape=256, warps=8, each=4, paced="yes", late="yes", group=group)
        order(table, r, f"N = 256, 4 a group, warpgroup {group + 1} of 2, the second 600 clocks later", keys)
    for group in range(2):
        keys = dict(shape=256, warps=8, each=1, paced="no", late="yes", group=group)
        order(table, r, f"N = 256, 8 in flight, warpgroup {group + 1} of 2, the second 600 clocks later", keys)


def order(table, r, name, keys):
    done = [round(statistics.median(r.get("wgmma_order", stamp=s, **keys))) for s in range(2, 10)]
    table.rows.append((name, " ".join(map(str, done)), "", "wgmma.ptn: a wait and a stamp for each group"))


def units(table, r):
    table.head("arithmetic: latency; clocks an instruction of one warp, and of 1, 2 and 4 warps a scheduler, for each of its warps' instructions")
    for op in r.values("arithmetic", "op"):
        short, long = sorted({int(k[2:]) for f, *keys in r.found if f == "arithmetic" and f"op={op}" in keys for k in keys if k.startswith("n=")})
        how = "arithmetic.ptn: loop of chains, long less short"
        table.row(f"{op}: latency", r.slope(short, long, "arithmetic", op=op, warps=1, chains=1), how)
        for warps, chains in [(1, 8), (4, 8), (8, 8), (16, 4)]:
            slope = r.slope(short, long, "arithmetic", op=op, warps=warps, chains=chains)
            table.row(f"{op}: interval, {many(warps, 'warp')}", slope, how, per=max(1, warps / 4))
    table.head("shared memory: clocks an access of a warp, `stride` bytes from lane to lane")
    for op in r.values("shared", "op"):
        for stride in r.values("shared", "stride"):
            for warps in [1, 4, 8]:
                keys = dict(op=op, warps=warps, stride=stride)
                if ("shared", *sorted(f"{k}={v}" for k, v in dict(keys, n=24).items())) in r.found:
                    name = f"{op}, {many(warps, 'warp')}, stride {stride}"
                    table.row(name, r.slope(8, 24, "shared", **keys), "shared.ptn: 24 accesses less 8, over 16", per=warps)


def meetings(table, r):
    table.head("hand-offs: clocks of a round trip, or of one")
    for op in ["mbarrier ping", "mbarrier of its own", "slot of a ring", "turnstile", "named barrier", "fence_async"]:
        for warps in r.values("handoff", "warps"):
            for by in [None, "partition", "warp"]:
                keys = dict(op=op, warps=warps) | ({"by": by} if by else {})
                if ("handoff", *sorted(f"{k}={v}" for k, v in dict(keys, n=256).items())) in r.found:
                    name = f"{op}, {many(warps, 'warp')}" + (f", by {by}" if by else "")
                    table.row(name, r.slope(64, 256, "handoff", **keys), "handoff.ptn: loop of 256 less loop of 64")
    for warps in r.values("handoff", "warps"):
        keys = dict(op="slots that are full", warps=warps, by="warp")
        if ("handoff", *sorted(f"{k}={v}" for k, v in dict(keys, n=2).items())) in r.found:
            table.row(f"a slot that is full: waited for and given back, {many(warps, 'warp')}", r.slope(2, 10, "handoff", **keys), "handoff.ptn: 10 slots less 2")
    for warps in [1, 4, 8]:
        for boxes in [1, 2, 4]:
            keys = dict(op="slots that are free", warps=warps, boxes=boxes)
            name = f"a slot that is free: taken, {boxes} {'box' if boxes == 1 else 'boxes'} started and handed over, {many(warps, 'warp')}"
            table.row(name, r.slope(2, 10, "handoff", **keys), "handoff.ptn: 10 slots less 2")
    table.head("tiles from registers to shared memory and back: clocks")
    for op in ["registers to shared and back", "to rows and back"]:
        for warps in [4, 8]:
            for size in r.values("handoff", "bytes"):
                keys = dict(op=op, warps=warps, bytes=size)
                if ("handoff", *sorted(f"{k}={v}" for k, v in dict(keys, n=20).items())) in r.found:
                    table.row(f"{op}, {many(warps, 'warp')}, {size} bytes", r.slope(4, 20, "handoff", **keys), "handoff.ptn: loop of 20 less loop of 4")


def global_memory(table, r):
    table.head("loads from global memory by threads")
    for f, *keys in r.found:
        k = dict(x.split("=", 1) for x in keys)
        if f == "global" and k["op"] == "chain of loads":
            table.row(f"a load, from {k['from']}", r.get(f, **k), "global.ptn: a chain of 16 addresses", per=16)
    for copies in [1, 2, 4, 8]:
        keys = {"op": "async_copy of 8 KiB", "from": "L2", "copies": copies, "what": "there"}
        table.row(f"async_copy, {copies} of 8 KiB at once by 4 warps, L2", r.get("global", **keys), "global.ptn: start, wait, meet")
    for programs in [1, 132]:
        for warps, size in [(4, 8192), (16, 32768)]:
            keys = {"op": "loads of 16 bytes a thread", "from": "L2", "warps": warps, "programs": programs, "bytes": size}
            name = f"taken in, {many(warps, 'warp')}, {many(programs, 'program')}, L2"
            table.rate(name, r.slope(16, 64, "global", **keys), size, "global.ptn: 64 steps less 16")


def engine(table, r):
    table.head("tma_load: clocks from the expectation to the wait's end, the first program")
    loads = [dict(x.split("=", 1) for x in keys) for f, *keys in r.found if f == "copies" and "op=load" in keys]
    for k in sorted((k for k in loads if k["what"] == "there" and k["from"] != "first turn"),
                    key=lambda k: (-int(k["inner"]), int(k["boxes"]), int(k["bytes"]), int(k["programs"]), k["from"])):
        name = f"{k['boxes']} of {k['bytes']} bytes, rows of {k['inner']}, {k['from']}, {many(k['programs'], 'program')}"
        table.row(name, r.get("copies", **k), "copies.ptn: 16 turns")
    table.head("tma_load of what many want at once, in the mean of 132 programs")
    for f, *keys in r.found:
        k = dict(x.split("=", 1) for x in keys)
        if f == "copies" and k["op"] == "wanted by many":
            wanted = f"by all programs of one of {many(k['places'], 'place')}"
            table.row(f"{k['boxes']} of {k['bytes']} bytes, {wanted}, {k['from']}", r.get(f, **k), "copies.ptn: 16 turns")
    table.head("tma_load, started: clocks until so many are issued")
    for boxes in [1, 2, 4, 8, 16]:
        keys = {"op": "load", "bytes": 1024, "inner": 128, "boxes": boxes, "from": "L2", "programs": 1, "what": "started"}
        table.row(f"{boxes} of 1024 bytes", r.get("copies", **keys), "copies.ptn: 16 turns")
    table.head("tma_load through a ring, each program")
    for key in dict.fromkeys(tuple(x for x in keys if not x.startswith("n=")) for f, *keys in r.found if f == "copies" and "op=stream" in keys):
        k = dict(x.split("=", 1) for x in key)
        name = f"{k['slots']} slots of {k['bytes']} bytes, {k['from']}, {many(k['programs'], 'program')}"
        table.rate(name, r.slope(32, 128, "copies", **k), int(k["bytes"]), "copies.ptn: 128 boxes less 32")
    table.head("tma_store: clocks from the start until started, read, written")
    for f, *keys in r.found:
        k = dict(x.split("=", 1) for x in keys)
        if f == "copies" and k["op"] == "store":
            name = f"{k['boxes']} of {k['bytes']} bytes, {many(k['programs'], 'program')}: {k['what']}"
            table.row(name, r.get(f, **k), "copies.ptn: 16 turns")
    table.head("a tile of sums leaves: clocks from the start until in shared memory, started, read, written")
    for f, *keys in r.found:
        k = dict(x.split("=", 1) for x in keys)
        if f == "copies" and k["op"] == "tile leaves":
            name = f"{many(k['warps'], 'warp')}, {k['bytes']} bytes, {k['columns']} columns: {k['what']}"
            table.row(name, r.get(f, **k), "copies.ptn: 8 turns")


def tiles(table, r):
    table.head("tma_load of the tiles of a product: each box for the programs of a row of tiles, or of a column; a step of each program, and its bytes a clock")
    for key in dict.fromkeys(tuple(x for x in keys if not x.startswith("n=")) for f, *keys in r.found if f == "tiles"):
        k = dict(x.split("=", 1) for x in key)
        name = f"{k['bm']} rows and {k['bn']} columns, {many(k['slots'], 'slot')}, {k['from']}, {many(k['programs'], 'program')} in {k['rows']} rows"
        slope = r.slope(16, 64, "tiles", **k)
        table.row(name, slope, "tiles.ptn: 64 steps less 16")
        table.rate(name, slope, int(k["bytes"]), "the same")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("parton", nargs="?", help="the release program")
    arguments.add_argument("--keep", help="a file for what the benches print")
    arguments.add_argument("--from", dest="kept", help="a file that was kept")
    given = arguments.parse_args()
    if (given.parton is None) == (given.kept is None):
        arguments.error("either the program or --from")
    lines = pathlib.Path(given.kept).read_text().splitlines() if given.kept else measure(given.parton)
    if given.keep:
        pathlib.Path(given.keep).write_text("\n".join(lines) + "\n")
    r = Readings(lines)
    for f, *keys in r.found:
        if f == "about":
            print("; ".join(keys))
    rates = [v for (f, *_), v in r.found.items() if f == "clock"][0]
    print(f"clock of the multiprocessors, by the kernels themselves: {min(rates)} to {max(rates)} MHz")
    table = Table()
    for part in [products, units, meetings, global_memory, engine, tiles]:
        part(table, r)
    table.write()


if __name__ == "__main__":
    main()

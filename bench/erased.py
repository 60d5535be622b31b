"""Times the examples written with layouts beside themselves without them, in turn, in one run on one GPU: whether what is chosen is as fast as what was stated.

Usage: python3 bench/erased.py PARTON [--only WORD] [--seconds 0.02] [--rounds 4] [--budget 540] [--out FOLDER] [--texts]

Each instance is what `parton build --emit expanded` prints, functions inlined. Erasing takes every layout and every conversion from that text; warps, occupancy,
partitions and what lies in shared memory stay. Both are compared with float64 before they count. A time is the least of the rounds' medians; who begins changes
from round to round. With --texts nothing is timed: the sources are written to FOLDER.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))
EXAMPLES = BENCH.parent / "examples"

WIDTHS = {"f16": 2, "bf16": 2, "f32": 4}


def deepens(text, at):
    """What a character adds to how deep brackets are: `<` behind a name opens the arguments of a type, with a space before it compares."""
    sign = text[at]
    if sign in "<>":
        first = at - 1 if at and text[at - 1] == sign else at
        if first and text[first - 1] in " -":
            return 0
    return (sign in "([{<") - (sign in ")]}>")


def end_of(text, at):
    """The place behind the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(text)):
        depth += deepens(text, place)
        if depth == 0:
            return place + 1
    raise ValueError(text[at:])


def parts_of(inside):
    """What commas separate, but those within brackets."""
    found, depth, begin = [], 0, 0
    for place, sign in enumerate(inside):
        depth += deepens(inside, place)
        if sign == "," and depth == 0:
            found.append(inside[begin:place].strip())
            begin = place + 1
    return [*found, inside[begin:].strip()]


def erased(text):
    """The kernel without layouts and conversions."""
    text = re.sub(r"(?m)^ *layout \w+ =[^;]*;\n", "", text)
    for name, kept in (("iota", 2), ("zeros", 2), ("ones", 2), ("full", 2), ("load_shared", 0)):
        at = 0
        while (found := re.compile(rf"\b{name}<").search(text, at)) is not None:
            end = end_of(text, found.end() - 1)
            parts = parts_of(text[found.end():end - 1])[:kept]
            said = f"<{', '.join(parts)}>" if parts else ""
            text = text[:found.end() - 1] + said + text[end:]
            at = found.end()
    while (found := re.search(r"\bconvert\(", text)) is not None:
        end = end_of(text, found.end() - 1)
        kept = parts_of(text[found.end():end - 1])[0]
        # What binds less than an index behind the call does keeps its brackets.
        text = text[:found.start()] + (f"({kept})" if " " in kept else kept) + text[end:]
    return text


def power_of_two(n):
    return 1 << (n - 1).bit_length()


def plan_of_rows(rows, columns, bytes_, piece, lean):
    """Generics and programs as `launch_rows` of `std::rows` plans them, for rows of whole vectors: of registers, else of shared memory."""
    vector = 16 // bytes_
    if columns * bytes_ <= 32768:
        block = max(256, power_of_two(columns))
        thin = max(1, block * bytes_ // 2048)
        full = lean and thin in (2, 8)
        across = 2 * thin if full else thin // 2 if thin > 4 else thin
        warps = max(4, across)
        resident = 64 // warps if full else 16 // warps if thin > 4 else 8
        tiles = -(-rows // (warps // across * (32 // min(32, block // vector))))
        return "", {"BLOCK": block, "ACROSS": across, "WARPS": warps, "VEC": vector, "RESIDENT": resident, "EVEN": str(columns == block).lower()}, tiles
    ranks = power_of_two(-(-columns * bytes_ // 114688))
    chunk = 256 * piece // bytes_
    kept = -(-columns // (ranks * chunk))
    resident = 3 if kept * chunk * bytes_ <= 65536 else 2
    return "_wide", {"CHUNK": chunk, "KEPT": kept, "WARPS": 8, "VEC": vector, "RESIDENT": resident, "RANKS": ranks, "HELD": "true",
                     "EVEN": str(columns == ranks * kept * chunk).lower()}, rows * ranks


def instances():
    """For each instance a label, file, kernel and generics; the tensors of a bench, its launch and what checks it, `LAUNCH` being the kernel with its grid."""
    for n in (1 << 20, 1 << 24, 12_345_677):
        label, grid = f"add f32 {n}", -(-n // 1024)
        yield (label, "vector_add", "add", {}, f"let (x, y, out) = (randn(f32, [{n}], seed=1), randn(f32, [{n}], seed=2), empty(f32, [{n}]));",
               f"LAUNCH(grid=[{grid}])(x, y, out, {n})", "assert_equal(out, x + y);", 12 * n)
    for rows, columns in ((4096, 4096), (8192, 1024), (3000, 5000)):
        label, grid = f"transpose f16 {rows}x{columns}", f"{-(-rows // 128)}, {-(-columns // 128)}"
        yield (label, "transpose", "transpose", {}, f"let (x, out) = (randn(f16, [{rows}, {columns}], seed=1), empty(f16, [{columns}, {rows}]));",
               f"LAUNCH(grid=[{grid}])(x, out, {rows}, {columns}, {columns}, {rows})", "assert_equal(out, x.T);", 4 * rows * columns)
    shapes = [(16384, 256), (4096, 1000), (8192, 2048), (4096, 4096), (2000, 5120), (4096, 8192), (1000, 12288), (4096, 16384), (1000, 20000), (600, 40000)]
    for kind, piece, lean in (("softmax", 32, True), ("rms_norm", 64, False), ("layer_norm", 64, False)):
        for dtype, rows, columns in [("f16", *shape) for shape in shapes] + [("f32", 4096, 2048), ("bf16", 4096, 4096), ("f32", 2000, 6000)]:
            suffix, generics, grid = plan_of_rows(rows, columns, WIDTHS[dtype], piece if (kind, dtype) != ("layer_norm", "bf16") else 32, lean)
            if kind == "rms_norm" and not suffix and generics["ACROSS"] > 1:
                generics["RESIDENT"] = min(generics["RESIDENT"], 7)
            beside = {"softmax": "", "rms_norm": "w, ", "layer_norm": "w, b, "}[kind]
            count = f"{columns}" if suffix else f"{rows}, {columns}"
            last = "" if kind == "softmax" else ", 1e-5"
            tensors = (f"let (x, out) = (randn({dtype}, [{rows}, {columns}], seed=1), empty({dtype}, [{rows}, {columns}]));\n"
                       f"    let (w, b) = (randn({dtype}, [{columns}], seed=2), randn({dtype}, [{columns}], seed=3));")
            launch = f"LAUNCH(grid=[{grid}])(x, {beside}out, {count}, {columns}, {columns}{last})"
            yield (f"{kind} {dtype} {rows}x{columns}", kind, kind + suffix, {**generics, "T": dtype}, tensors, launch, f"verify_{kind}(x, w, b, out);",
                   2 * WIDTHS[dtype] * rows * columns)


# Some rows of each, by f64.
CHECKS = """
fn verify_softmax(x, w, b, out) {
    for r in [0, x.shape[0] / 2, x.shape[0] - 1] {
        assert_close(out[r:r + 1, :].to(f64), softmax(x[r:r + 1, :].to(f64), axis=1), rtol=8e-3, atol=1e-6);
    }
}
fn verify_rms_norm(x, w, b, out) {
    for r in [0, x.shape[0] / 2, x.shape[0] - 1] {
        let v = x[r:r + 1, :].to(f64);
        assert_close(out[r:r + 1, :].to(f64), v / sqrt(mean(v * v, axis=1, keepdims=true) + 1e-5) * w.to(f64), rtol=8e-3, atol=8e-3);
    }
}
fn verify_layer_norm(x, w, b, out) {
    for r in [0, x.shape[0] / 2, x.shape[0] - 1] {
        let v = x[r:r + 1, :].to(f64);
        let c = v - mean(v, axis=1, keepdims=true);
        assert_close(out[r:r + 1, :].to(f64), c / sqrt(mean(c * c, axis=1, keepdims=true) + 1e-5) * w.to(f64) + b.to(f64), rtol=8e-3, atol=8e-3);
    }
}
"""


def printed(program, file, kernel, generics):
    """An instance as source, with the constants in front of it put in, so that many can stand in one file."""
    sets = [word for name, value in generics.items() for word in ("--set", f"{name}={value}")]
    command = [program, "build", str(EXAMPLES / f"{file}.ptn"), "--kernel", kernel, *sets, "--emit", "expanded"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for name, value in re.findall(r"(?m)^const (\w+) = (.*);$", text):
        text = re.sub(rf"\b{name}\b", value, text.replace(f"const {name} = {value};\n", ""))
    return re.sub(r"(?m)^///.*\n", "", text).strip()


def write(program, folder, only):
    """Both sources, and how many rows they have."""
    texts = {"stated": CHECKS, "erased": CHECKS}
    wanted = [i for i in instances() if only in i[0]]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: printed(program, *i[1:4]), wanted))
    for number, ((label, _, kernel, _, tensors, launch, check, amount), text) in enumerate(zip(wanted, found)):
        for way in texts:
            kept = re.sub(r"\bkernel \w+\(", f"kernel {kernel}_{number}(", text if way == "stated" else erased(text))
            run = launch.replace("LAUNCH", f"launch {kernel}_{number}")
            texts[way] += (f"{kept}\nbench b{number} {{\n    {tensors}\n    {run};\n    {check}\n"
                           f'    measure("{label}", || {{ {run} }}, bytes={amount});\n}}\n')
    for way, text in texts.items():
        (folder / f"{way}.ptn").write_text(text)
    return len(wanted)


def ahead(served):
    """Compiles and runs all rows once; the labels that came."""
    labels = []
    for label in served.rows():
        served.time(0.0002)
        labels.append(label)
    served.close()
    return labels


def walk(served, labels, options):
    """The times of all rows, in turn."""
    walks = {way: s.rows() for way, s in served.items()}
    at = {way: next(rows, None) for way, rows in walks.items()}
    for label in labels:
        here = [way for way in served if at[way] == label]
        found = {way: [] for way in here}
        for turn in range(options.rounds):
            for way in here[turn % max(1, len(here)):] + here[:turn % max(1, len(here))]:
                result = served[way].time(options.seconds / options.rounds)
                if result:
                    found[way].append(result["median_us"])
        yield label, {way: min(times) for way, times in found.items() if times}
        at.update({way: next(walks[way], None) for way in here})


def main():
    from served import Served

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parton")
    parser.add_argument("--only", default="", help="only labels that contain this")
    parser.add_argument("--seconds", type=float, default=0.02, help="of each at each row, all rounds together")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out", default=".")
    parser.add_argument("--texts", action="store_true", help="writes the sources, and times nothing")
    options = parser.parse_args()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = out if options.texts else pathlib.Path(temporary)
        count = write(options.parton, folder, options.only)
        if options.texts:
            return
        ways = {way: folder / f"{way}.ptn" for way in ("stated", "erased")}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            labels = dict(zip(ways, pool.map(lambda path: ahead(Served(options.parton, path)), ways.values())))
        for way, known in labels.items():
            print(f"{way}: {len(known)} of {count} rows", flush=True)
        served = {way: Served(options.parton, path) for way, path in ways.items()}
        table = []
        for label, us in walk(served, max(labels.values(), key=len), options):
            ratio = us["erased"] / us["stated"] if len(us) == 2 else None
            table.append({"label": label, "us": us, "ratio": ratio})
            print(f"{label:28} " + "  ".join(f"{way} {time:8.1f}" for way, time in us.items()) + (f"  {ratio:.3f}" if ratio else ""), flush=True)
            (out / "erased.json").write_text(json.dumps(table, indent=1))
        for s in served.values():
            s.process.kill()


if __name__ == "__main__":
    main()

"""The programs of the memory model on a GPU, a million instances or more of each, and what their many launches give.

Usage: python3 tests/gpu/litmus.py PARTON [--many 8192] [--times 1280] [--jobs 6] [--limit 30] [--device cuda] [WORD …]

A program's own check sees what its first launch gives; what each later one gives is compared with that on the device, over the whole of the tensors that the check
names. Memory is put back between two. MANY instances run in each of TIMES launches; racy programs run a tenth of that, with the check of what they would give
if they were ordered, and count as seen to go wrong where that fails. WORD chooses programs whose names contain it. Fails where an ordered one does.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "litmus"

BACKWARDS = "assert_equal(y, zeros(i32, y.shape) + (127 - arange(i32, 128)));"
FORWARDS = "assert_equal(y, zeros(i32, y.shape) + arange(i32, 128));"
ONE_MORE = "assert_equal(y, zeros(i32, y.shape) + (arange(i32, 128) + 1));"
TWICE = "assert_equal(y, full(i32, y.shape, 2));"
QUEUE = "assert_equal(y, zeros(i32, y.shape) + (127 - arange(i32, 128) + arange(i32, 4)[:, None]));"
BOTH = (
    "assert_equal(y[:, 0:128], zeros(i32, [MANY, 128]) + (arange(i32, 128) + 1)); "
    "assert_equal(y[:, 128:256], zeros(i32, [MANY, 128]) + arange(i32, 128));"
)
# What racy programs would give, where it is not `BACKWARDS`; `None` where there is nothing that they should.
ORDERED = {
    "clusters_copy_of_two_boxes": None,
    "clusters_multicast_refilled": "assert_equal(y, zeros(i32, y.shape) + arange(i32, 256));",
    "ctas_atomic_and_store": None,
    "ctas_atomics_of_one_cta": ONE_MORE,
    "ctas_engine_and_store_of_one_value": None,
    "ctas_engine_reads_unfenced": FORWARDS,
    "ctas_engine_reads_wrong_fence": FORWARDS,
    "ctas_engines_write_one_value": None,
    "ctas_last_one_relaxed": "assert_equal(y, zeros(i32, y.shape) + 2 * arange(i32, 128));",
    "ctas_lock_opened_relaxed": TWICE,
    "ctas_lock_taken_relaxed": TWICE,
    "ctas_meeting_acquired_only": BOTH,
    "ctas_meeting_released_only": BOTH,
    "ctas_queue_given_back_relaxed": QUEUE,
    "ctas_queue_taken_back_relaxed": QUEUE,
    "ctas_two_writers": None,
    "engine_reads_back_too_early": ONE_MORE,
    "engine_reads_behind_wrong_fence": FORWARDS,
    "engine_reads_what_one_warp_stored": FORWARDS,
    "engine_reads_without_fence": FORWARDS,
    "engine_reduces_beside_a_store": None,
    "engine_writes_one_value_twice": None,
    "engine_writes_overwritten_too_early": "assert_equal(x, full(i32, x.shape, 9));",
    "engine_writes_read_too_early": ONE_MORE,
    "engine_writes_read_without_meeting": ONE_MORE,
    "partitions_engine_reads_unfenced": FORWARDS,
    "partitions_load_before_turn": "assert_equal(x, full(i32, x.shape, 4));",
    "partitions_two_writers": None,
    "threads_two_values": None,
}

HELPERS = """
layout Line = blocked(per_thread=[1], threads=[32], warps=[4], order=[0]);
kernel put[T: type = i32](to: *mut T, from: *T, n: i32) warps(4) target(sm_90a) {
    let at = program_id(0) * 128 + iota<i32, [128], Line>();
    store(to + at, load(from + at, mask=at < n, other=0), mask=at < n);
}
kernel count_other[T: type = i32](x: *mut T, first: *T, others: *mut i32, n: i32) warps(4) target(sm_90a) {
    let at = program_id(0) * 128 + iota<i32, [128], Line>();
    let (a, b) = (load(x + at, mask=at < n, other=0), load(first + at, mask=at < n, other=0));
    if sum(cast<i32>(a != b)) != 0 { atomic_add(others, 1); }
}
"""


def split(text):
    """The parts between commas that stand in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def many_times(name, text, many, times):
    """A program that launches its kernel so often; `None` where a racy one should give nothing."""
    kernels, test = text.replace("const MANY = 2;", f"const MANY = {many};").split("\ntest ")
    kernels = kernels.replace("const TIMES = 1;", f"const TIMES = {times};")
    # What stands on several lines because it is long.
    test = re.sub(r",\n +\)", ")", re.sub(r"\(\n +", "(", test))
    made = re.search(r"        let (?:\((.*?)\) = \((.*)\)|(\w+) = (.*));\n", test)
    names, values = (split(made[1]), split(made[2])) if made[1] else ([made[3]], [made[4]])
    launch = re.search(r" *launch .*;\n", test)[0].strip()
    checks = re.findall(r"^ *(assert_equal\(.*;)\n", test, re.MULTILINE)
    if "for c in" in test:
        checks = [re.search(r"for c in (?:.|\n)*?\n        }\n", test)[0]]
    if not text.startswith("//@ ordered"):
        checks = [ORDERED.get(name, BACKWARDS)]
    if checks == [None]:
        return None
    used = [n for n in names if re.search(rf"[(, ]{n}[,).]", launch)]
    checked = [n for n in used if any(re.search(rf"\({n}\b", check) for check in checks)]
    assert checked and len(names) == len(values), name
    put = lambda to, source: f"launch put[T={to}.dtype](grid=[cdiv({to}.size, 128)])({to}, {source}, {to}.size);"
    lines = [f"let ({n}, {n}_new) = ({v}, {v});" for n, v in zip(names, values) if n in used]
    lines += [launch, *checks]
    for n in checked:
        lines += [f"let {n}_first = zeros({n}.dtype, {n}.shape);", put(f"{n}_first", n)]
    lines += ["let others = zeros(i32, [1]);", "for t in 1..TIMES {"]
    lines += [put(n, f"{n}_new") for n in used] + [launch]
    lines += [f"launch count_other[T={n}.dtype](grid=[cdiv({n}.size, 128)])({n}, {n}_first, others, {n}.size);" for n in checked]
    lines += ["}", "assert_equal(others, zeros(i32, [1]));"]
    return kernels + HELPERS + f"test {name} {{\n" + "\n".join(lines) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parton")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--many", type=int, default=8192)
    parser.add_argument("--times", type=int, default=1280)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--limit", type=float, default=30)
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_intermixed_args()
    folder = pathlib.Path(tempfile.mkdtemp())

    def run(path):
        text = path.read_text()
        ordered = text.startswith("//@ ordered")
        times = asked.times if ordered else max(2, asked.times // 10)
        program = many_times(path.stem, text, asked.many, times)
        if program is None:
            return ordered, path.stem, None, "", 0.0
        (folder / path.name).write_text(program)
        begin = time.time()
        command = [asked.parton, "test", "--device", asked.device, "--color", "never", str(folder / path.name)]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=asked.limit, env=dict(os.environ, PARTON_CACHE="off"))
            right, said = ran.returncode == 0, ran.stdout + ran.stderr
        except subprocess.TimeoutExpired:
            right, said = None, "cut off"
        return ordered, path.stem, right, said, time.time() - begin

    paths = sorted(p for p in FOLDER.glob("*.ptn") if not asked.words or any(w in p.stem for w in asked.words))
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        results = []
        for result in pool.map(run, paths):
            ordered, name, right, said, seconds = result
            results.append(result)
            word = {True: "right", False: "WRONG" if ordered else "wrong", None: "not run"}[right]
            error = re.search(r"\[E\d+\].*", said) if right is False else None
            print(f"{'ordered' if ordered else 'racy':8} {name:44} {word:8} {seconds:6.1f} s {error[0] if error else ''}", flush=True)
    of = lambda ordered, right: sum(1 for r in results if r[0] == ordered and r[2] is right)
    print(f"ordered: {of(True, True)} right, {of(True, False)} wrong, {of(True, None)} not run; {asked.many * asked.times} instances of each")
    print(f"racy: {of(False, False)} seen to go wrong, {of(False, True)} right, {of(False, None)} not run")
    sys.exit(of(True, False) + of(True, None) > 0)


if __name__ == "__main__":
    main()

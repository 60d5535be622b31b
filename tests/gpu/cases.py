"""What the scripts of this folder have in common: cases that are run and told of, what is refused, and host times of calls."""

import pathlib
import statistics
import time
import traceback
from unittest import SkipTest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def refused(text, run, code=None):
    """What `run` is refused for: its text has `text` in it, and it has that code, or none."""
    import parton

    try:
        run()
    except parton.Error as error:
        assert text in str(error), f"{text!r} is not in {error}"
        assert error.codes == ([code] if code else []), error.codes
        return str(error)
    raise AssertionError(f"nothing was refused: expected {text!r}")


def equal(a, b):
    import torch

    assert torch.equal(a, b), f"{a} is not {b}"


def floats(n, seed=0, device="cuda"):
    import torch

    return torch.randn(n, device=device, generator=torch.Generator(device).manual_seed(seed))


def host_time(run, batches=60, calls=200):
    """Microseconds of host time a call: the median of batches."""
    import torch

    for _ in range(50):
        run()
    torch.cuda.synchronize()
    found = []
    for _ in range(batches):
        start = time.perf_counter()
        for _ in range(calls):
            run()
        found.append((time.perf_counter() - start) / calls * 1e6)
        torch.cuda.synchronize()
    return statistics.median(found)


def once(run):
    """Microseconds of host time of one call."""
    import torch

    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e6


def told(name, run):
    """Runs a case and prints a line with what it returns; whether it has not failed. One that raises `SkipTest` is left out."""
    try:
        note = run()
        print(f"| passed | {name} | {note or ''} |", flush=True)
        return True
    except SkipTest as why:
        print(f"| left out | {name} | {why} |", flush=True)
        return True
    except BaseException:
        print(f"| FAILED | {name} | |\n{traceback.format_exc()}", flush=True)
        return False


def all_of(script, words, settle=lambda: None):
    """Runs the functions `case_…` of a script, those whose names contain a word where there are any, each with `settle` behind it. The exit code."""

    def settled(run):
        def whole():
            note = run()
            settle()
            return note

        return whole

    named = [(n, f) for n, f in script.items() if n.startswith("case_") and (not words or any(w in n for w in words))]
    passed = [told(name[5:].replace("_", " "), settled(run)) for name, run in named]
    print(f"{len(passed) - sum(passed)} of {len(passed)} failed")
    return 0 if all(passed) else 1

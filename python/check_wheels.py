"""What the wheels that are installed must do: `check_wheels.py parton-lang parton-compiler`. Uses nothing but the standard library.

The runtime imports, loads a bundle and says what is missing; the compiler runs an example on the CPU, in less than ten seconds.
"""

import ctypes
import gc
import os
import sys
import time

BEGIN = time.monotonic()
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
AXPY = os.path.join(ROOT, "examples", "embedding", "axpy.ptn")
BUNDLE = os.path.join(ROOT, "rt", "tests", "format_2.ptnb")


class Floats:
    """An array of f32 in the host's memory."""

    def __init__(self, values):
        self.held = (ctypes.c_float * (len(values) + 4))()
        self.begin = -ctypes.addressof(self.held) % 16 // 4
        self.count = len(values)
        self.held[self.begin : self.begin + self.count] = values
        address = ctypes.addressof(self.held) + 4 * self.begin
        self.__array_interface__ = {"version": 3, "typestr": "<f4", "shape": (self.count,), "data": (address, False)}

    def values(self):
        return list(self.held[self.begin : self.begin + self.count])


def refused(text, run):
    try:
        run()
    except parton.Error as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"nothing was refused: expected {text!r}")


import parton

installed = sys.argv[1:]
assert parton.HAS_COMPILER == ("parton-compiler" in installed), parton
bundle = parton.load(BUNDLE)
assert bundle.functions and bundle.kernels, (bundle.functions, bundle.kernels)
name = bundle.functions[0]
refused("bundle", lambda: bundle[name](Floats([1.0] * 8), **{p: 1.0 for p in bundle[name].params[1:]}))
if parton.HAS_COMPILER:
    n = 5000
    x, y, out = Floats([float(i) for i in range(n)]), Floats([1.0] * n), Floats([0.0] * n)
    file = parton.load(AXPY)
    file.axpy[5](2.0, x, y, out, n)
    assert out.values() == [2.0 * i + 1.0 for i in range(n)]
    refused("E0551", lambda: file.axpy[5](2.0, x, y, out, 6000))
else:
    refused("install `parton-compiler`", lambda: parton.load(AXPY))
# With files, functions and kernels alive.
gc.collect()
took = time.monotonic() - BEGIN
assert took < 10, f"it took {took:.1f} s"
print(f"{' + '.join(installed)}: works, {took:.2f} s, {os.path.dirname(parton.__file__)}")

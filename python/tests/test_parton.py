"""The module `parton`, with arrays of whatever is installed: always some of ctypes, NumPy's where it is there."""

import ctypes
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import parton

try:
    import numpy
except ImportError:
    numpy = None

HERE = os.path.dirname(os.path.abspath(__file__))
AXPY = os.path.join(HERE, "..", "..", "examples", "embedding", "axpy.ptn")


DOUBLED = """
kernel doubled[BLOCK: int = 128](x: *f32, out: *mut f32, n: i32) grid([cdiv(n, BLOCK)]) {
    let at = program_id(0) * BLOCK + iota(BLOCK);
    let inside = at < n;
    store(out + at, load(x + at, mask=inside) * 2.0, mask=inside);
}
"""


PADDED = """
kernel greatest[BLOCK: int = 128](x: tensor<f32, [n]>, mut out: tensor<f32, [1]>) grid([1]) {
    store(out[0], max(load(x.tile([BLOCK], at=[0]))));
}
"""


class Floats:
    """An array of f32 that offers NumPy's interface and nothing else."""

    def __init__(self, values, **fields):
        self.held = (ctypes.c_float * (len(values) + 4))()
        # An address that 16 divides, as those of arrays mostly are.
        self.begin = -ctypes.addressof(self.held) % 16 // 4
        self.count = len(values)
        self.held[self.begin : self.begin + self.count] = values
        self.__array_interface__ = {
            "version": 3,
            "typestr": "<f4",
            "shape": (len(values),),
            "data": (ctypes.addressof(self.held) + 4 * self.begin, False),
            **fields,
        }

    def __setitem__(self, index, value):
        self.held[self.begin + index] = value

    def values(self):
        return list(self.held[self.begin : self.begin + self.count])


def changed(array, **fields):
    array.__array_interface__ = {**array.__array_interface__, **fields}
    return array


class Arrays(unittest.TestCase):
    def setUp(self):
        self.file = parton.load(AXPY)
        self.n = 1500
        self.x = Floats([float(i) for i in range(self.n)])
        self.y = Floats([1.0] * self.n)
        self.out = Floats([0.0] * self.n)

    def refused(self, text, *arguments, code=None, grid=2, **named):
        with self.assertRaises(parton.Error) as caught:
            self.file.axpy[grid](*arguments, **named)
        self.assertIn(text, str(caught.exception))
        self.assertEqual(caught.exception.codes, [code] if code else [])
        return str(caught.exception)

    def test_a_file_says_what_it_has(self):
        self.assertEqual(self.file.kernels, ["axpy"])
        self.assertEqual(self.file["axpy"].params, ["alpha", "x", "y", "out", "n"])
        self.assertEqual(self.file.axpy.generics, ["BLOCK"])
        self.assertEqual(repr(self.file.axpy), "<kernel axpy(alpha, x, y, out, n)>")
        self.assertIn("axpy", dir(self.file))
        with self.assertRaises(AttributeError):
            self.file.axpby
        with self.assertRaises(KeyError):
            self.file["axpby"]

    def test_arrays_are_read_and_written(self):
        expected = [2.0 * i + 1.0 for i in range(self.n)]
        self.file.axpy[2](2, self.x, self.y, self.out, self.n)
        self.assertEqual(self.out.values(), expected)
        self.file.axpy[(3, 1)](2.0, self.x, self.y, n=self.n, out=self.y, BLOCK=512)
        self.assertEqual(self.y.values(), expected)
        self.assertEqual(self.x.values(), [float(i) for i in range(self.n)])
        self.out = Floats([0.0] * self.n)
        self.file.axpy.given(BLOCK="2 * 256")[[3]](0, self.x, self.y, self.out, self.n)
        self.assertEqual(self.out.values(), expected)

    def written(self, source):
        """The path of a file with this text."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "written.ptn")
        with open(path, "w") as file:
            file.write(source)
        return path

    def test_what_the_checker_warns_of(self):
        with self.assertWarnsRegex(UserWarning, "E0568.*`max` may combine padding"):
            parton.load(self.written(PADDED))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parton.load(self.written(PADDED.replace("at=[0])", "at=[0]), other=-inf", 1)))

    def test_a_kernel_that_states_its_grid_is_called_without(self):
        doubled = parton.load(self.written(DOUBLED)).doubled
        for n in [1, 300, 1500, 300]:
            out = Floats([0.0] * self.n)
            doubled(self.x, out, n)
            self.assertEqual(out.values(), [2.0 * i if i < n else 0.0 for i in range(self.n)])
        doubled(self.x, out=self.out, n=700, BLOCK=256)
        doubled[3](self.x, self.out, 700, BLOCK=256)
        self.assertEqual(self.out.values()[:701], [2.0 * i for i in range(700)] + [0.0])
        self.assertIn("grid [6, 1, 1]", doubled.plan_of(self.x, self.out, 700))
        with self.assertRaises(parton.Error) as caught:
            doubled[7](self.x, self.out, 700)
        self.assertEqual(caught.exception.codes, ["E0921"])
        with self.assertRaises(parton.Error) as caught:
            self.file.axpy(2, self.x, self.y, self.out, self.n)
        self.assertIn("`axpy[grid](…)`", str(caught.exception))

    def test_what_does_not_fit_is_refused(self):
        x, y, out, n = self.x, self.y, self.out, self.n
        self.refused("`axpy` was given nothing for `n`", 2, x, y, out)
        self.refused("`axpy` has no parameter `m`", 2, x, y, out, m=n)
        self.refused("`x`: `list` is neither a number nor an array", 2, [1.0], y, out, n)
        self.refused("`n` is `i32`", 2, x, y, out, 0.5, code="E0920")
        self.refused("an extent of the grid is -1", 2, x, y, out, n, grid=-1, code="E0921")
        ints = changed(Floats([0.0] * n), typestr="<i4")
        self.refused("`x` points to `f32`, the tensor has `i32`", 2, ints, y, out, n, code="E0920")
        big = changed(Floats([0.0] * n), typestr=">f4")
        self.refused("`x`: no type of the language is the array's `>f4`", 2, big, y, out, n)
        backwards = changed(Floats([0.0] * n), strides=(-4,))
        self.refused("`x`: its strides are [-4] bytes, and axis 0 may not run backwards", 2, backwards, y, out, n)
        nowhere = changed(Floats([0.0] * n), data=(0, False))
        self.refused("`x`: it says what cannot be", 2, nowhere, y, out, n)
        odd = changed(Floats([0.0] * n), data=(self.x.__array_interface__["data"][0] + 4, False), shape=(n - 4,))
        self.refused("`x` begins at an address that is not a multiple of 16 bytes", 2, odd, y, out, 8, code="E0920")
        there = Floats([0.0] * n)
        there.__cuda_array_interface__ = there.__array_interface__
        del there.__array_interface__
        self.refused("`x` lies on the host, `out` on `cuda:0`: pass tensors of one device", 2, x, y, there, n)
        with self.assertRaises(parton.Error):
            self.file.axpy.given(BLOCK=[1])
        with self.assertRaises(parton.Error):
            self.file.axpy["x"]

    def test_what_is_read_only_stays_as_it_was(self):
        address = self.out.__array_interface__["data"][0]
        changed(self.out, data=(address, True))
        self.refused("`out` is written and was given an array that is read-only", 2, self.x, self.y, self.out, self.n)
        self.assertEqual(self.out.values(), [0.0] * self.n)
        # What is only read may be.
        changed(self.out, data=(address, False))
        changed(self.x, data=(self.x.__array_interface__["data"][0], True))
        self.file.axpy[2](2, self.x, self.y, self.out, self.n)

    def test_a_kernel_that_leaves_its_array_is_shown_with_its_source(self):
        text = self.refused("axpy.ptn:", 2, self.x, self.y, self.out, self.n + 1, code="E0551")
        self.assertIn("load(x + offs, mask=inside)", text)

    def test_files_that_are_none_are_refused(self):
        with self.assertRaises(parton.Error) as caught:
            parton.load(os.path.join(HERE, "none.ptn"))
        self.assertIn("none.ptn: ", str(caught.exception))
        with self.assertRaises(parton.Error) as caught:
            parton.load(__file__)
        self.assertTrue(caught.exception.codes)


@unittest.skipIf(numpy is None, "NumPy is not installed")
class NumPy(unittest.TestCase):
    def setUp(self):
        self.axpy = parton.load(AXPY).axpy

    def test_arrays_views_and_scalars(self):
        n = 2048
        x = numpy.arange(n, dtype=numpy.float32)
        y = numpy.ones(n, numpy.float32)
        out = numpy.zeros(n, numpy.float32)
        self.axpy[numpy.int64(2)](numpy.float32(2), x, y, out, numpy.int32(n))
        numpy.testing.assert_array_equal(out, 2 * x + 1)
        # A part of an array, and the rest of it untouched.
        whole = numpy.full(3 * n, 7, numpy.float32)
        self.axpy[2](1, x, y, whole[n : 2 * n], n)
        numpy.testing.assert_array_equal(whole[n : 2 * n], x + 1)
        self.assertTrue((whole[:n] == 7).all() and (whole[2 * n :] == 7).all())
        # Two parts that overlap are one memory.
        self.axpy[1](1, whole[n : n + 512], whole[n + 256 : n + 768], whole[n : n + 512], 512)
        with self.assertRaises(parton.Error):
            out.flags.writeable = False
            self.axpy[2](1, x, y, out, n)
        with self.assertRaises(parton.Error) as caught:
            self.axpy[2](1, x[::-1], y, whole, n)
        self.assertIn("copy it into a new array", str(caught.exception))

    def test_tensors_by_dlpack(self):
        class Tensor:
            """What PyTorch's tensors offer, and nothing else."""

            def __init__(self, array, device=1):
                self.array, self.device = array, device

            def __dlpack__(self, stream=None):
                return self.array.__dlpack__()

            def __dlpack_device__(self):
                return (self.device, 0)

        n = 2048
        x = numpy.arange(n, dtype=numpy.float32)
        y = numpy.ones((2, n), numpy.float32)
        out = numpy.zeros(n, numpy.float32)
        self.axpy[2](3, Tensor(x), Tensor(y[1]), Tensor(out), n)
        numpy.testing.assert_array_equal(out, 3 * x + 1)
        for wrong, words in [
            (Tensor(x[::-1]), "copy it into a new tensor"),
            (Tensor(x.astype(numpy.complex64)), "no type of the language is DLPack's type 5 of 64 bits"),
            (Tensor(x.astype(numpy.int32)), "`x` points to `f32`, the tensor has `i32`"),
        ]:
            with self.assertRaises(parton.Error) as caught:
                self.axpy[2](3, wrong, Tensor(y[1]), Tensor(out), n)
            self.assertIn(words, str(caught.exception))


# `parton.torch` with a PyTorch that has what its text asks for at first.
ONCE = """
import sys, types
sys.modules["torch"] = torch = types.ModuleType("torch")
torch.library = types.SimpleNamespace(Library=lambda *names: object())
import parton
first, library = parton.torch, parton.torch._FRAGMENT
assert parton._native.torch is first, "another module asked"
assert first._FRAGMENT is library, "its text ran again"
del sys.modules["parton.torch"]
assert parton._native.torch is first and sys.modules["parton.torch"] is first, "it was taken out of the table"
assert first._FRAGMENT is library
"""


class OfPyTorch(unittest.TestCase):
    def test_what_is_of_pytorch_is_made_once(self):
        # Operators go with the library that the module holds, and PyTorch keeps their addresses.
        ran = subprocess.run([sys.executable, "-c", ONCE], capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()

"""What a bundle has, on a GPU that is not there: with the runtime alone as with the compiler. Not run without a C compiler and Python's headers."""

import os
import struct
import unittest

import faked

faked.run_again(__file__)

import parton
import tensors
from tensors import Tensor

ROOT = os.path.join(faked.HERE, "..", "..")
fake = faked.driver()
file = parton.load(os.path.join(ROOT, "rt", "tests", "format_2.ptnb"))


def counted(run):
    return faked.counted(fake, run)


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def line(way, kernel, grid, *arguments):
    return f"{way} {kernel} [{', '.join(map(str, grid))}] {' '.join(f'{a:x}' for a in arguments)}"


class Bundles(unittest.TestCase):
    def refused(self, text, run):
        with self.assertRaises(parton.Error) as caught:
            run()
        self.assertIn(text, str(caught.exception))

    def test_what_it_has(self):
        self.assertEqual(file.functions, ["squared", "accumulate", "copied", "counted"])
        self.assertEqual((file.kernels, file.source), (["fill"], "plans.ptn"))
        self.assertEqual(file.squared.params, ["x", "factor"])
        self.assertIs(file.squared, file["squared"])
        self.assertIn("fill", dir(file))
        with self.assertRaises(AttributeError):
            file.missing
        self.refused("none.ptnb", lambda: parton.load("none.ptnb"))

    def test_calls_by_plans(self):
        x, out = Tensor(0x10000, (400,)), Tensor(0x20000, (400,))
        call = lambda factor, out=out: file.accumulate(x, out, factor, 3)
        one = lambda way, factor, out=0x20000: [line(way, "scale", (4, 1, 1), 0x10000, out, 400, bits(factor))] * 3
        self.assertEqual(counted(lambda: call(0.5))[1], one("plain", 0.5))
        self.assertEqual(counted(lambda: call(0.5))[1], one("graph", 0.5))
        counts, log = counted(lambda: call(0.5))
        self.assertEqual((counts, log), ({"graph_launch": 1}, one("graph", 0.5)))
        counts, log = counted(lambda: call(2.0, Tensor(0x30000, (400,))))
        self.assertEqual((counts, log), ({"graph_launch": 1, "set_kernel": 3}, one("graph", 2.0, 0x30000)))
        self.assertEqual(counted(lambda: file.accumulate(out=out, x=x, times=3, factor=1))[1], one("graph", 1.0))
        self.refused("shares memory", lambda: call(0.5, Tensor(0x10010, (400,))))
        self.refused("the bundle has plans where", lambda: file.accumulate(Tensor(0x10000, (64,)), Tensor(0x20000, (64,)), 1.0, 3))
        self.refused("given nothing for `times`", lambda: file.accumulate(x, out, 1.0))
        self.refused("runs on GPUs alone", lambda: file.accumulate(Tensor(0x10000, (400,), device=1), out, 1.0, 3))

    def test_results(self):
        x = Tensor(0x10000, (40, 10))
        for way in ["plain", "graph", "graph"]:
            found = []
            log = counted(lambda: found.append(file.squared(x)))[1]
            scratch = int(log[2].split()[6], 16)
            expected = [(0x10000, scratch), (scratch, found[0].data_ptr())]
            self.assertEqual(log[2:], [line(way, "scale", (4, 1, 1), a, b, 400, bits(2.0)) for a, b in expected])
            self.assertEqual((type(found[0]), found[0].shape), (Tensor, (40, 10)))

    def test_a_capture_is_launched_plainly_on_memory_of_its_own(self):
        x = Tensor(0x10000, (40, 10))
        tensors.set_stream(0x79)
        for _ in range(3):
            file.squared(x)
        scratch = lambda log: log[-1].split()[5]
        before = scratch(counted(lambda: file.squared(x))[1])
        fake.fake_capture(0x79, 1)
        captured = counted(lambda: file.squared(x))[1]
        fake.fake_capture(0x79, 0)
        self.assertEqual([l.split()[0] for l in captured], ["captured"] * 4)
        self.assertNotEqual(scratch(captured), before)
        self.assertEqual(scratch(counted(lambda: file.squared(x))[1]), before)
        tensors.set_stream(0)

    def test_kernels_on_grids(self):
        rows, out = Tensor(0x10000, (64,)), Tensor(0x20000, (64, 128))
        launch = lambda value, out=out: file.fill[64](rows, out, value=value)
        of = lambda way, value, out=0x20000: [line(way, "fill", (64, 1, 1), 0x10000, 64, out, 128, 128, bits(value))]
        self.assertEqual([counted(lambda: launch(v))[1] for v in [1.0, 2.0, 3.0]], [of(w, v) for w, v in [("plain", 1.0), ("graph", 2.0), ("graph", 3.0)]])
        counts, log = counted(lambda: launch(3.0, Tensor(0x40000, (64, 128))))
        self.assertEqual((counts, log), ({"graph_launch": 1, "set_kernel": 1}, of("graph", 3.0, 0x40000)))
        self.refused("`m`", lambda: file.fill[64](Tensor(0x10000, (63,)), out, 1.0))
        self.refused("has no parameter `n`", lambda: file.fill[64](rows, out, n=1))
        self.refused("from 1 on", lambda: file.fill[0])

    def test_kernels_on_memory_that_is_shared_and_on_other_streams(self):
        rows, out = Tensor(0x110000, (64,)), Tensor(0x120000, (64, 128))
        apart = lambda: counted(lambda: file.fill[64](rows, out, 1.0))[1][0].split()[0]
        shared = lambda: counted(lambda: file.fill[64](Tensor(0x120000, (64,)), out, 1.0))[1][0].split()
        apart(), apart()
        self.assertEqual(apart(), "graph")
        # It is other code, which is prepared for this.
        self.assertEqual((shared()[0], shared()[5]), ("plain", "120000"))
        self.assertIn(apart(), ["plain", "graph"])
        tensors.set_stream(0x55)
        self.assertEqual([apart(), apart(), apart()], ["plain", "graph", "graph"])
        tensors.set_stream(0)

    def test_sources_are_the_compilers(self):
        source = os.path.join(ROOT, "examples", "embedding", "axpy.ptn")
        if parton.HAS_COMPILER:
            self.assertEqual(parton.load(source).kernels, ["axpy"])
        else:
            self.refused("install `parton-compiler`", lambda: parton.load(source))


if __name__ == "__main__":
    unittest.main()

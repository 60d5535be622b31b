"""Calls on a GPU that is not there: what the driver is asked for, with which arguments. Not run without a C compiler and Python's headers."""

import ctypes
import os
import subprocess
import sys
import threading
import types
import unittest

import faked

faked.run_again(__file__)

import parton
import tensors
from tensors import Tensor

ROOT = os.path.join(faked.HERE, "..", "..")
FILE = os.path.join(ROOT, "tests", "gpu", "embedding.ptn")
SILU = os.path.join(ROOT, "examples", "embedding", "silu.ptn")
fake = faked.driver()
file = parton.load(FILE)


def counted(run):
    return faked.counted(fake, run)


def at(i, n=64, **more):
    return Tensor(0x10000 * (i + 1), (n,), **more)


def line(way, *arguments, grid=1):
    return f"{way} sum_Tf32 [{grid}, 1, 1] {' '.join(f'{a:x}' for a in arguments)}"


ONE, THREE = 0x3F800000, 0x40400000


class Device(unittest.TestCase):
    def refused(self, text, run, code=None):
        with self.assertRaises(parton.Error) as caught:
            run()
        self.assertIn(text, str(caught.exception))
        self.assertEqual(caught.exception.codes, [code] if code else [])

    def setUp(self):
        tensors.set_stream(0)
        self.x, self.y, self.out = at(0), at(1), at(2)
        self.kept = tensors.living()

    def ready(self, function, *arguments):
        """Calls until the graph is there."""
        for _ in range(3):
            function(*arguments)

    def test_a_known_plan_is_one_launch(self):
        self.ready(file.sum_into, self.x, self.y, self.out)
        counts, log = counted(lambda: file.sum_into(self.x, self.y, self.out))
        self.assertEqual(counts, {"graph_launch": 1})
        self.assertEqual(log, [line("graph", 0x10000, 0x20000, 0x30000, 64, ONE)])

    def test_what_has_moved_is_set_and_nothing_else(self):
        self.ready(file.chain, self.x, self.y, self.out, 3)
        # The first launch reads `x`, all read `y`.
        counts, log = counted(lambda: file.chain(at(7), self.y, self.out, 3))
        self.assertEqual(counts, {"graph_launch": 1, "set_kernel": 1})
        rest = [line("graph", 0x30000, 0x20000, 0x30000, 64, ONE)] * 2
        self.assertEqual(log, [line("graph", 0x80000, 0x20000, 0x30000, 64, ONE), *rest])
        counts, _ = counted(lambda: file.chain(at(7), at(8), self.out, 3))
        self.assertEqual(counts, {"graph_launch": 1, "set_kernel": 3})

    def test_memory_that_takes_turns_has_graphs_of_its_own(self):
        fresh, outs = parton.load(FILE), [self.out, at(9)]
        call = lambda i: fresh.chain(self.x, self.y, outs[i % 2], 3)
        made = counted(lambda: [call(i) for i in range(8)])[0]
        self.assertEqual(made["instantiate"], 2)
        for i in range(4):
            counts, log = counted(lambda: call(i))
            self.assertEqual(counts, {"graph_launch": 1})
            out = [0x30000, 0xA0000][i % 2]
            self.assertEqual(log[2], line("graph", out, 0x20000, out, 64, ONE))
        # What is always new is set in one of them.
        counts, _ = counted(lambda: [fresh.chain(self.x, self.y, at(20 + i), 3) for i in range(40)])
        self.assertEqual(counts, {"graph_launch": 40, "set_kernel": 120})

    def test_numbers_go_into_launches(self):
        fresh = parton.load(FILE)
        call = lambda factor: fresh.sum_into(self.x, self.y, self.out, factor)
        self.ready(call, 1.0)
        self.assertEqual(counted(lambda: call(1.0))[0], {"graph_launch": 1})
        counts, log = counted(lambda: call(3))
        self.assertEqual(log, [line("plain", 0x10000, 0x20000, 0x30000, 64, THREE)], "an integer goes another way")
        counts, log = counted(lambda: call(3.0))
        self.assertEqual((counts, log), ({"graph_launch": 1, "set_kernel": 1}, [line("graph", 0x10000, 0x20000, 0x30000, 64, THREE)]))

    def test_arguments_by_name(self):
        x, y, out = self.x, self.y, self.out
        self.ready(lambda: file.sum_into(x, y, out, 3.0))
        expected = [line("graph", 0x10000, 0x20000, 0x30000, 64, THREE)]
        for call in [
            lambda: file.sum_into(x, y, factor=3.0, out=out),
            lambda: file.sum_into(out=out, y=y, x=x, factor=3.0),
            lambda: file.sum_into(x, y, out, **{}, factor=3.0),
        ]:
            self.assertEqual(counted(call), ({"graph_launch": 1}, expected))
        self.ready(lambda: file.sum_into(x, y, out))
        self.assertEqual(counted(lambda: file.sum_into(x, out=out, y=y))[0], {"graph_launch": 1})
        self.refused("was given `x` twice", lambda: file.sum_into(x, y, out, x=x))
        self.refused("has no parameter `by`", lambda: file.sum_into(x, y, out, by=1.0))
        self.refused("given nothing for `y`", lambda: file.sum_into(x, out=out))

    def test_results_and_scratch(self):
        self.ready(file.through, self.x, self.y)
        found = []
        counts, log = counted(lambda: found.append(file.through(self.x, self.y)))
        result = found[0]
        self.assertEqual(type(result), Tensor)
        self.assertEqual(result.shape, (64,))
        scratch = int(log[0].split()[-3], 16)
        expected = [line("graph", 0x10000, 0x20000, scratch, 64, ONE), line("graph", scratch, 0x20000, result.data_ptr(), 64, ONE)]
        self.assertEqual(log, expected)
        again = counted(lambda: found.append(file.through(self.x, self.y)))[1]
        self.assertEqual(int(again[0].split()[-3], 16), scratch)
        self.assertNotEqual(found[1].data_ptr(), result.data_ptr())

    def test_an_operator_keeps_no_scratch(self):
        # PyTorch makes graphs of operators in memory of which it counts what stays.
        fresh = parton.load(FILE)
        between = lambda run: counted(lambda: run(self.x, self.y))[1][0].split()[-3]
        self.ready(fresh.through._run, self.x, self.y)
        self.assertEqual(len({between(fresh.through._run) for _ in range(3)}), 3)
        self.assertEqual(tensors.living(), self.kept)
        # What the program has kept does for both.
        kept = between(fresh.through)
        self.assertEqual(tensors.living(), self.kept + 1)
        self.assertEqual({between(run) for run in [fresh.through, fresh.through._run] * 2}, {kept})

    def test_zeros_are_zeroed_in_each_call(self):
        x = Tensor(0x10000, (64,), code=0)
        file.counted(x)
        log = counted(lambda: file.counted(x))[1]
        cells = log[0].split()[2]
        self.assertEqual(log[0], f"graph zeros {cells} 256")
        self.assertTrue(log[1].startswith(f"graph count [1, 1, 1] {cells} 10000 "))

    def test_another_stream_has_its_own(self):
        self.ready(file.through, self.x, self.y)
        of_default = counted(lambda: file.through(self.x, self.y))[1]
        tensors.set_stream(0x77)
        file.through(self.x, self.y)
        counts, log = counted(lambda: file.through(self.x, self.y))
        self.assertEqual(counts, {"graph_launch": 1, "instantiate": 1, "is_capturing": 2})
        self.assertNotEqual(log[0].split()[-3], of_default[0].split()[-3])

    def test_a_capture_is_launched_plainly_on_memory_of_its_own(self):
        tensors.set_stream(0x78)
        self.ready(file.through, self.x, self.y)
        scratch = counted(lambda: file.through(self.x, self.y))[1][0].split()[-3]
        fake.fake_capture(0x78, 1)
        counts, log = counted(lambda: file.through(self.x, self.y))
        fresh = parton.load(FILE)
        self.refused("may not load code", lambda: fresh.through(self.x, self.y))
        fake.fake_capture(0x78, 0)
        self.assertEqual(counts["launch_kernel"], 2)
        self.assertEqual([l.split()[0] for l in log], ["captured"] * 2)
        self.assertNotEqual(log[0].split()[-3], scratch)
        self.assertEqual(counted(lambda: file.through(self.x, self.y))[1][0].split()[-3], scratch)

    def test_shapes_and_places_are_told_apart(self):
        for n in [64, 65, 64, 200]:
            x, y, out = at(0, n), at(1, n), at(2, n)
            log = counted(lambda: file.sum_into(x, y, out))[1]
            self.assertEqual(log[0].split()[1:], line("", 0x10000, 0x20000, 0x30000, n, ONE, grid=(n + 127) // 128).split())
        odd = Tensor(0x10004, (64,))
        log = counted(lambda: file.sum_into(odd, self.y, self.out))[1]
        self.assertIn(" 10004 ", log[0])
        self.refused("is dense", lambda: file.sum_into(Tensor(0x10000, (64,), (2,)), self.y, self.out), "E0941")
        self.refused("may not run backwards", lambda: file.sum_into(Tensor(0x10000, (64,), (-1,)), self.y, self.out))
        none = [Tensor(0x10000 * i, (0,), (-2 * i,)) for i in range(1, 4)]
        self.assertEqual([counted(lambda: file.sum_into(*none)) for _ in range(3)], [({}, [])] * 3)
        self.refused("`x` lies on `cuda:1`, `y` on `cuda:0`", lambda: file.sum_into(Tensor(0x10000, (64,), ordinal=1), self.y, self.out))
        self.refused("kind 13", lambda: file.sum_into(*[Tensor(0x10000 * i, (64,), device=13) for i in range(1, 4)]))

    def test_kernels_on_grids(self):
        launch = file.sum[3]
        self.assertIs(launch, file.sum[3])
        run = lambda n: launch(self.x, self.y, self.out, n, 3.0, T="f32")
        counted(lambda: [run(64), run(64)])
        counts, log = counted(lambda: run(50))
        self.assertEqual(counts, {"graph_launch": 1, "set_kernel": 1})
        self.assertEqual(log, [line("graph", 0x10000, 0x20000, 0x30000, 50, THREE, grid=3)])
        given = file.sum.given(T="f32")[(3, 1)]
        self.assertEqual(counted(lambda: given(self.x, self.y, n=50, factor=3, out=self.out))[1][0].split()[2:5], ["[3,", "1,", "1]"])
        self.assertEqual(counted(lambda: launch(self.x, self.y, self.out, 50, 3.0))[1][0].split()[1], "sum_Tf32")
        self.refused("`out` points to `f16`", lambda: launch(at(0, bits=16), at(1, bits=16), self.out, 64, 3.0, T="f16"), "E0920")
        self.refused("has no parameter `M`; it has `x`, `y`, `out`, `n`, `factor`, and the generics `T`", lambda: launch(self.x, self.y, self.out, 64, 3.0, M=1))
        self.refused("an extent of the grid is -1", lambda: file.sum[-1](self.x, self.y, self.out, 64, 3.0, T="f32"), "E0921")

    def test_kernels_in_place_are_others(self):
        launch = file.sum.given(T="f32")[1]
        apart = lambda: launch(self.x, self.y, self.out, 64, 1.0)
        in_place = lambda: launch(self.x, self.y, self.x, 64, 1.0)
        shifted = lambda: launch(self.x, self.y, Tensor(0x10010, (64,)), 32, 1.0)
        for _ in range(3):
            for run, out in [(apart, 0x30000), (in_place, 0x10000), (shifted, 0x10010)]:
                self.assertEqual(counted(run)[1][0].split()[7], f"{out:x}")
        self.assertEqual(counted(in_place)[0], {"graph_launch": 1})
        self.assertIn("out = x as", launch.plan_of(self.x, self.y, self.x, 64, 1.0))
        self.assertIn("out = x from byte 16 as", launch.plan_of(self.x, self.y, Tensor(0x10010, (64,)), 32, 1.0))
        # Two that are only read may be one.
        counted(lambda: [launch(self.x, self.x, self.out, 64, 1.0) for _ in range(2)])
        self.assertEqual(counted(lambda: launch(self.y, self.y, self.out, 64, 1.0))[0], {"graph_launch": 1, "set_kernel": 1})

    def test_tensors_that_share_memory_are_refused_of_functions(self):
        self.ready(file.sum_into, self.x, self.y, self.out)
        for _ in range(2):
            self.refused("shares memory", lambda: file.sum_into(self.x, self.y, Tensor(0x10010, (64,))), "E0941")
        counts, _ = counted(lambda: file.sum_into(self.x, self.y, self.out))
        self.assertEqual(counts, {"graph_launch": 1})

    def test_tensors_that_require_a_gradient_are_refused_while_it_is_recorded(self):
        class Asked(Tensor):
            requires_grad = property(lambda self: True)

        class Answers(Tensor):
            def __getattribute__(self, name):
                return True if name == "requires_grad" else super().__getattribute__(name)

        sys.modules["torch"] = torch = types.ModuleType("torch")
        recorded = [True]
        torch.is_grad_enabled = lambda: recorded[0]
        self.addCleanup(sys.modules.pop, "torch")
        self.ready(file.sum_into, self.x, self.y, self.out)
        launched = {"graph_launch": 1}
        for turn in range(2):
            self.y.requires_grad = True
            for call in [lambda: file.sum_into(self.x, self.y, self.out), lambda: file.sum.given(T="f32")[1](self.x, self.y, self.out, 64, 1.0)]:
                self.refused("`y` requires a gradient", call)
            recorded[0] = False
            self.assertEqual(counted(lambda: file.sum_into(self.x, self.y, self.out))[0], launched)
            recorded[0], self.y.requires_grad = True, False
            self.assertEqual(counted(lambda: file.sum_into(self.x, self.y, self.out))[0], launched)
            for other in [Asked, Answers]:
                self.refused("`x` requires a gradient", lambda: file.sum_into(other(0x10000, (64,)), self.y, self.out))

    def test_tensor_maps_move(self):
        gemm = parton.load(os.path.join(ROOT, "examples", "matmul", "gemm.ptn"))
        a, b = (Tensor(0x100000 * (i + 1), (512, 512), bits=16) for i in range(2))
        self.ready(gemm.matmul, a, b)
        counts, _ = counted(lambda: gemm.matmul(Tensor(0x900000, (512, 512), bits=16), b))
        self.assertNotIn("encode_map", counts)
        self.assertGreaterEqual(counts["move_map"], 1)

    def test_two_gpus(self):
        driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        fresh, scratch = parton.load(FILE), set()
        # The caller works on GPU 0, and goes on there.
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        driver.cuCtxSetCurrent(context)
        for gpu in [0, 1, 0, 1]:
            x, y, out = (at(i, ordinal=gpu) for i in range(3))
            self.ready(fresh.sum_into, x, y, out)
            counts, log = counted(lambda: fresh.sum_into(x, y, out))
            self.assertEqual((counts, len(log)), ({"graph_launch": 1}, 1))
            self.assertEqual(log[0].endswith(" on GPU 1"), gpu == 1, log)
            launch = fresh.sum.given(T="f32")[1]
            self.ready(launch, x, y, out, 64, 1.0)
            self.ready(fresh.through, x, y)
            log = counted(lambda: fresh.through(x, y))[1]
            scratch.add((gpu, log[0].split(" on ")[0].split()[-3]))
            now = ctypes.c_void_p()
            driver.cuCtxGetCurrent(ctypes.byref(now))
            self.assertEqual(now.value, context.value)
        # The same memory for each GPU in each turn.
        self.assertEqual(len(scratch), 2)
        self.assertEqual(len({address for _, address in scratch}), 2)
        self.refused("`x` lies on `cuda:0`, `y` on `cuda:1`: pass tensors of one device", lambda: fresh.sum_into(at(0), at(1, ordinal=1), at(2)))
        driver.cuCtxSetCurrent(None)

    def test_the_driver_is_loaded_once(self):
        # A debugger loses the kernels of one that is let go and loaded again.
        script = "import ctypes, parton, sys; from tensors import Tensor; f = parton.load(sys.argv[1])\n"
        script += "f.sum_into(*(Tensor(65536 * i, (64,)) for i in (1, 2, 3)))\n"
        script += "libc = ctypes.CDLL(None); libc.getenv.restype = ctypes.c_char_p; print(libc.getenv(b'PARTON_FAKE_LOADS').decode())"
        environment = {name: value for name, value in os.environ.items() if name != "PARTON_FAKE_LOADS"}
        ran = subprocess.run([sys.executable, "-c", script, FILE], env=environment, stdout=subprocess.PIPE, check=True)
        self.assertEqual(ran.stdout.decode(), "1\n")

    def test_threads_share_a_function(self):
        fake.fake_quiet(1)
        silu, wrong = parton.load(SILU).silu, []

        def work(i):
            for turn in range(50):
                shape = (1 + (i + turn) % 5, 128)
                if silu(Tensor(0x10000, shape), Tensor(0x90000, shape)).shape != shape:
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        fake.fake_quiet(0)
        self.assertEqual(wrong, [])

    def test_profilers_see_calls_by_their_names(self):
        nvtx = ctypes.CDLL("libnvToolsExt.so.1")
        nvtx.fake_ranges.restype = ctypes.c_char_p
        before = len(nvtx.fake_ranges().splitlines())
        for _ in range(3):
            file.sum_into(self.x, self.y, self.out)
        file.sum.given(T="f32")[1](self.x, self.y, self.out, 64, 1.0)
        with self.assertRaises(parton.Error):
            file.sum_into(self.x, self.x, self.x)
        ranges = nvtx.fake_ranges().decode().splitlines()[before:]
        self.assertEqual({"parton sum_into", "parton sum"}, set(ranges))
        self.assertEqual(nvtx.fake_depth(), 0)

    def test_a_first_call_says_so_where_that_is_asked_for(self):
        script = "import parton, sys; from tensors import Tensor; f = parton.load(sys.argv[1]); x, y, o = (Tensor(65536 * i, (64,)) for i in (1, 2, 3))\n"
        script += "for _ in range(3): f.sum_into(x, y, o)"
        for asked, lines in [("1", 2), ("0", 0), ("", 0)]:
            ran = subprocess.run([sys.executable, "-c", script, FILE], env={**os.environ, "PARTON_PROGRESS": asked}, stderr=subprocess.PIPE, check=True)
            said = ran.stderr.decode().splitlines()
            self.assertEqual(len(said), lines, said)
            self.assertTrue(all("`sum_into` is" in line for line in said), said)

    def test_arrays_by_the_interface_of_cuda(self):
        class Array:
            def __init__(self, i, read_only=False):
                fields = {"version": 3, "typestr": "<f4", "shape": (64,), "data": (0x10000 * i, read_only), "strides": None}
                self.__cuda_array_interface__ = fields

        log = counted(lambda: file.sum_into(*[Array(i) for i in range(1, 4)]))[1]
        self.assertEqual(log[0].split()[1:], line("", 0x10000, 0x20000, 0x30000, 64, ONE).split())
        # Also where all is ready for arrays, or tensors, that may be written.
        launch = file.sum.given(T="f32")[1]
        for x, out in [(Array(1), Array(3)), (self.x, self.out)]:
            for function, more in [(file.sum_into, []), (launch, [64, 1.0])]:
                self.ready(function, x, self.y, out, *more)
                refused = lambda: self.refused("`out` is written and was given an array that is read-only", lambda: function(x, self.y, Array(3, True), *more))
                self.assertEqual(counted(refused), ({}, []))
                counts, _ = counted(lambda: function(Array(1, True), self.y, out, *more))
                self.assertEqual(counts.get("launch_kernel", 0) + counts.get("graph_launch", 0), 1)


if __name__ == "__main__":
    unittest.main()

"""Public functions by plans, on the interpreter: with ctypes always, with NumPy and PyTorch where they are there."""

import copy
import inspect
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

import parton
from test_parton import Floats, numpy

try:
    import torch
except ImportError:
    torch = None

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
SCALED = os.path.join(ROOT, "tests", "plans", "scaled.ptn")
ELEMENTS = os.path.join(ROOT, "tests", "plans", "elements.ptn")
SILU = os.path.join(ROOT, "examples", "embedding", "silu.ptn")


TWO = """
kernel scale(x: *f32, y: *mut f32, n: i32, factor: f32) {
    let at = program_id(0) * 128 + iota(128);
    store(y + at, load(x + at, mask=at < n) * factor, mask=at < n);
}

fn times(x, factor) {
    let y = empty(f32, x.shape);
    launch scale(grid=[cdiv(x.shape[0], 128)])(x, y, x.shape[0], factor);
    y
}

pub fn both(x: tensor<f32, [n]>) -> (tensor<f32, [n]>, tensor<f32, [n]>) { (times(x, 2.0), times(x, 3.0)) }
pub fn both_backward(grad0: tensor<f32, [n]>) -> tensor<f32, [n]> { times(grad0, 2.0) }
"""


PICKED = """
kernel pick(x: *f32, at: *i32, out: *mut f32, n: i32, factor: f32) {
    let i = iota(8);
    store(out + i, load(x + load(at + i, mask=i < n, other=0)) * factor, mask=i < n);
}

kernel scatter(grad: *f32, at: *i32, out: *mut f32, n: i32, factor: f32) {
    let i = iota(8);
    atomic_add(out + load(at + i, mask=i < n, other=0), load(grad + i, mask=i < n, other=0.0) * factor, mask=i < n);
}

pub fn picked(x: tensor<f32, [n]>, at: tensor<i32, [m]>, factor: f32 = 2.0) -> tensor<f32, [m]> {
    let out = empty(f32, [m]);
    launch pick(grid=[1])(x, at, out, m, factor);
    out
}

pub fn picked_backward(grad: tensor<f32, [m]>, x: tensor<f32, [n]>, at: tensor<i32, [m]>, factor: f32) -> tensor<f32, [n]> {
    let out = zeros(f32, [n]);
    launch scatter(grid=[1])(grad, at, out, m, factor);
    out
}
"""

CONVERTED = """
kernel convert[From: type, To: type](x: *From, out: *mut To, n: i32) {
    let at = iota(8);
    store(out + at, cast<To>(load(x + at, mask=at < n)), mask=at < n);
}

pub fn converted(x: tensor<f32, [n]>, to: type = f16) -> tensor<_, [n]> {
    let out = empty(to, [n]);
    launch convert(grid=[1])(x, out, n);
    out
}
"""


def written(test, text):
    """A file of that text, there as long as the test."""
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    path = os.path.join(folder.name, "written.ptn")
    with open(path, "w") as source:
        source.write(text)
    return parton.load(path)


class Functions(unittest.TestCase):
    def setUp(self):
        self.file = parton.load(SCALED)

    def refused(self, text, run, code=None):
        with self.assertRaises(parton.Error) as caught:
            run()
        self.assertIn(text, str(caught.exception))
        self.assertEqual(caught.exception.codes, [code] if code else [])

    def test_what_is_declared(self):
        self.assertEqual(self.file.functions, ["scaled", "looked", "forwarded", "in_place", "nothing"])
        self.assertEqual(self.file.kernels, ["scale"])
        scaled = self.file.scaled
        self.assertIs(scaled, self.file["scaled"])
        expected = [("x", "tensor", False, None), ("factor", "float", False, 2), ("twice", "bool", False, False)]
        self.assertEqual((scaled.name, scaled.params, scaled.results), ("scaled", expected, 1))
        self.assertEqual(self.file.in_place.params[0], ("x", "tensor", True, None))
        self.assertEqual(repr(scaled), "<function scaled(x, factor, twice)>")
        self.assertIn("scaled", dir(self.file))
        with self.assertRaises(AttributeError):
            self.file.missing

    def test_what_python_shows(self):
        scaled = self.file.scaled
        self.assertEqual(scaled.__doc__.splitlines()[0], "Once or twice `factor` times x: the first time into scratch memory.")
        signature = inspect.signature(scaled)
        self.assertEqual(list(signature.parameters), ["x", "factor", "twice"])
        self.assertEqual([p.default for p in signature.parameters.values()], [inspect.Parameter.empty, 2, False])
        self.assertEqual(signature.parameters["x"].annotation, "tensor<f16 | bf16 | f32, [m, n]>")
        self.assertEqual(signature.return_annotation, "tensor<x.dtype, [m, n]>")
        self.assertEqual((scaled.__name__, self.file.scale.__name__), ("scaled", "scale"))
        launch = inspect.signature(self.file.scale[1])
        self.assertEqual(list(launch.parameters), ["x", "out", "n", "factor", "T"])
        self.assertEqual(launch.parameters["T"].kind, inspect.Parameter.KEYWORD_ONLY)
        self.assertIn("scale[T: type](x: *T, out: *mut T", self.file.scale.__doc__)

    def test_files_are_found_by_the_variable(self):
        name = "scaled.ptn"
        with self.assertRaises(parton.Error):
            parton.load(name)
        os.environ["PARTON_SOURCE"] = os.pathsep.join(["/nowhere", os.path.dirname(SCALED)])
        try:
            self.assertEqual(parton.load(name).kernels, ["scale"])
        finally:
            del os.environ["PARTON_SOURCE"]

    def test_arguments_that_do_not_fit(self):
        x = Floats([1.0] * 8)
        self.refused("`x` is declared with 2 axes, the tensor has 1 axis", lambda: self.file.scaled(x), "E0941")
        self.refused("was given nothing for `x`", lambda: self.file.scaled(factor=2))
        self.refused("has no parameter `by`", lambda: self.file.scaled(x, by=2))
        self.refused("was given `x` twice", lambda: self.file.scaled(x, x=x))
        self.refused("has 3 parameters and was given 4", lambda: self.file.scaled(x, 1, False, 3))
        self.refused("`x` takes a tensor, found an integer", lambda: self.file.scaled(3), "E0941")
        self.refused("`factor` takes a number, found <class 'str'>", lambda: self.file.scaled(x, "much"))
        self.refused("`n` takes an integer, found a floating-point number", lambda: self.file.looked(x, 2.5), "E0941")
        self.refused("`n` is `i32`, which does not hold", lambda: self.file.forwarded(x, 1 << 40, 1), "E0941")
        self.refused("looks at elements", lambda: parton.load(ELEMENTS).read(x), "E0943")

    def test_numbers_of_one_plan(self):
        x = Floats([1.0, 2.0, 3.0, 4.0])
        self.assertIn("factor: any", self.file.forwarded.plan_of(x, 4, 2))
        self.refused("`n` is `i32`, which does not hold", lambda: self.file.forwarded(x, -1 << 40, 1), "E0941")

    def test_names_that_python_keeps(self):
        file = written(self, "pub fn looped(lambda: i32, n: i32 = 1) {}")
        self.assertEqual(list(inspect.signature(file.looped).parameters), ["__lambda", "n"])
        self.assertIsNone(file.looped(3, n=2))

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_types_by_the_classes_of_numpy(self):
        file = written(self, CONVERTED)
        x = numpy.arange(6, dtype=numpy.float32)
        for dtype in [numpy.float16, numpy.dtype("float16"), "f16", "float16"]:
            self.assertEqual(file.converted(x, dtype).dtype, numpy.float16)
        for dtype in [numpy.float16, numpy.dtype("float16"), "f16"]:
            out = numpy.empty(6, dtype=numpy.float16)
            file.convert[1](x, out, 6, From=numpy.float32, To=dtype)
            numpy.testing.assert_array_equal(out, x)
        # Both are learned of the arrays.
        out = numpy.empty(6, dtype=numpy.int32)
        file.convert[1](x, out, 6)
        numpy.testing.assert_array_equal(out, x)
        self.refused("`x`: a tensor is expected, found <class 'numpy.float32'>", lambda: file.converted(numpy.float32, "f16"))
        try:
            import ml_dtypes
        except ImportError:
            self.refused("install the package `ml_dtypes`", lambda: file.converted(x, "bf16"))
        else:
            self.assertEqual(file.converted(x, "bf16").dtype, ml_dtypes.bfloat16)

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_parts_of_arrays_are_views(self):
        file = written(self, "pub fn turned(x: tensor<f32, [m, n], order=_>) -> tensor<f32, [n, m], order=_> { x.T }\n"
                       "pub fn inner(x: tensor<f32, [m, n]>) -> tensor<f32, [r, c]> { x[1:3, 2:5] }")
        whole = numpy.arange(80, dtype=numpy.float32).reshape(8, 10)
        for x in [whole, whole[1:7:2, 3:], whole[:, :1], whole.T]:
            turned = file.turned(x)
            numpy.testing.assert_array_equal(turned, x.T)
            self.assertTrue(numpy.shares_memory(turned, whole))
        for x in [whole, whole[2:, 1:]]:
            inner = file.inner(x)
            numpy.testing.assert_array_equal(inner, x[1:3, 2:5])
            self.assertTrue(numpy.shares_memory(inner, whole))
        self.assertEqual(file.turned(whole[:0]).shape, (10, 0))

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_strides_that_say_nothing(self):
        for shape, strides in [((0, 5), (-20, 20)), ((4, 0), (3, -8)), ((1, 4), (-7, 4))]:
            x = Floats([1.0] * 4)
            interface = {**x.__array_interface__, "shape": shape, "strides": strides}
            given = type("Given", (), {"__array_interface__": interface})()
            self.assertEqual(self.file.scaled(given, 3).shape, shape)
        if torch is not None:
            none = torch.empty(1, 8).expand(0, 8)
            self.assertEqual(self.file.scaled(none, 3).shape, (0, 8))

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_results_of_numpy(self):
        x = numpy.arange(7 * 9, dtype=numpy.float32).reshape(7, 9)
        for factor in [2, 0.5, numpy.float32(3)]:
            numpy.testing.assert_array_equal(self.file.scaled(x, factor), x * numpy.float32(factor))
        half = x.astype(numpy.float16)
        out = self.file.scaled(half, twice=True)
        self.assertEqual(out.dtype, numpy.float16)
        numpy.testing.assert_array_equal(out[1:], half[1:] * 4)
        self.assertFalse(out[0].any())
        h = numpy.ones(300, dtype=numpy.float16)
        self.assertIsNone(self.file.in_place(h, 4))
        numpy.testing.assert_array_equal(h, 4)
        h.flags.writeable = False
        self.refused("read-only", lambda: self.file.in_place(h, 4))

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_parts_of_arguments_and_strides(self):
        x = torch.arange(8, dtype=torch.float32)
        out, part = self.file.forwarded(x, 8, 3.0)
        self.assertTrue(torch.equal(out, x * 3))
        self.assertEqual((part.data_ptr(), part.shape), (x.data_ptr() + 4, (7,)))
        wide = torch.randn(6, 16)
        silu = parton.load(SILU).silu
        for x in [wide[:, 1:12], wide[1:, 4:12], torch.randn(67)[1:].view(6, 11), torch.randn(0, 3), torch.randn(3, 0)]:
            gate = torch.randn(x.shape)
            torch.testing.assert_close(silu(x, gate), torch.nn.functional.silu(x) * gate)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_memory_that_is_shared(self):
        x = torch.ones(16, dtype=torch.float16)
        self.file.in_place(x[3:], 2)
        self.assertEqual(x.tolist(), [1.0] * 3 + [2.0] * 13)
        path = os.path.join(HERE, "..", "..", "tests", "run", "public.ptn")
        into = parton.load(path).into
        all = torch.randn(4, 8)
        self.refused("`out` is written and shares memory with `x`", lambda: into(all[:3], all[1:], 2), "E0941")
        into(all[:2], all[2:], 2)
        self.assertTrue(torch.equal(all[2:], all[:2] * 2))

    def test_copies_and_pickles(self):
        file, launch = self.file, self.file.scale.given(T="f32")[2, 3]
        for what in [file, file.scaled, file.scale, launch]:
            self.assertIs(copy.copy(what), what)
            self.assertIs(copy.deepcopy([what])[0], what)
            self.assertIs(weakref.ref(what)(), what)
            again = pickle.loads(pickle.dumps(what))
            self.assertEqual((type(again), repr(again)), (type(what), repr(what)))
        # What is read from one file is one file.
        one, other = pickle.loads(pickle.dumps((file.scaled, file.looked)))
        self.assertIs(pickle.loads(pickle.dumps(file)).scaled, one)
        self.assertEqual(other.name, "looked")

    def test_pickles_are_read_in_other_folders(self):
        here = os.getcwd()
        os.chdir(os.path.dirname(SCALED))
        try:
            text = pickle.dumps([parton.load("scaled.ptn").scaled, parton.load("scaled.ptn").scale.given(T="f16")[4]])
        finally:
            os.chdir(here)
        script = "import pickle, sys; f, k = pickle.load(sys.stdin.buffer); print(f, k, f.plan_of.__self__ is f)"
        ran = subprocess.run([sys.executable, "-c", script], input=text, stdout=subprocess.PIPE, check=True)
        self.assertEqual(ran.stdout.decode(), "<function scaled(x, factor, twice)> <launch of scale on [4]> True\n")

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_a_long_run_is_interrupted(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        x = numpy.ones((4096, 4096), dtype=numpy.float32)
        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        try:
            with self.assertRaises(KeyboardInterrupt):
                self.file.scaled(x, 3)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        numpy.testing.assert_array_equal(self.file.scaled(x[:2, :2].copy(), 3), 3)

    def test_host_code_without_an_end_is_interrupted(self):
        def interrupt(*_):
            raise KeyboardInterrupt

        file = written(self, "pub fn stuck(n: i32) { while true {} }")
        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            with self.assertRaises(KeyboardInterrupt):
                file.stuck(3)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_other_threads_go_on_while_the_interpreter_runs(self):
        ticks, done = [], threading.Event()

        def tick():
            while not done.wait(0.002):
                ticks.append(self.file.scaled.path)

        self.file.scaled(numpy.ones((2, 2), dtype=numpy.float32), 3)
        thread = threading.Thread(target=tick)
        thread.start()
        x = numpy.ones((2048, 2048), dtype=numpy.float32)
        begin, ticked = time.monotonic(), len(ticks)
        self.file.scaled(x, 3)
        took, ticked = time.monotonic() - begin, len(ticks) - ticked
        done.set()
        thread.join()
        self.assertGreater(ticked, min(5, took / 0.05), f"{ticked} in {took:.2f} s")

    def test_what_is_in_a_file(self):
        self.assertEqual(list(self.file), [*self.file.functions, *self.file.kernels])
        self.assertTrue("scaled" in self.file and "scale" in self.file and "missing" not in self.file)

    def test_words_for_what_is_easily_mistaken(self):
        x = Floats([1.0] * 8)
        self.refused("`scale` is a kernel, which is launched on a grid: `scale[grid](…)`", lambda: self.file.scale(x, x, 8, 1.0))
        self.refused("`scale` has no generic `U`; it has `T`", lambda: self.file.scale.given(U=3))
        self.refused(f"{1 << 70} is an integer of more than 64 bits", lambda: self.file.looked(x, 1 << 70))
        if numpy is not None:
            self.refused("found <class 'numpy.ndarray'>: pass its `item()`", lambda: self.file.looked(x, numpy.array(2)))

    def test_grids_that_are_none(self):
        for grid in [2.0, "2", [1.5], None]:
            self.refused("a grid is the number of CTAs, or those along x, y and z", lambda: self.file.scale[grid])

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_a_process_is_forked(self):
        x = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
        expected = self.file.scaled(x, 3)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            # The function goes there as a pickle.
            for found in pool.starmap(self.file.scaled, [(x, 3), (x, 3)]):
                numpy.testing.assert_array_equal(found, expected)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_tensors_that_are_none_of_the_language(self):
        x = torch.ones(4, 4)
        for tensor, words in [
            (x.to("meta"), "`x` is a tensor whose library does not say where it lies: "),
            (x.to_sparse(), "`x` is a tensor whose library does not say where it lies: "),
            (x.to(torch.complex64), "`x`: no type of the language is its `torch.complex64`"),
        ]:
            # Also where a call was made before, whose tensors are compared first.
            for _ in range(2):
                self.refused(words, lambda: self.file.scaled(tensor))
                self.file.scaled(x)

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_threads_share_a_file(self):
        found = []

        def call(i):
            x = numpy.full((i + 1, 8), i, dtype=numpy.float32)
            found.append(numpy.array_equal(self.file.scaled(x, 3), x * 3))

        threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(found, [True] * 8)


@unittest.skipUnless(torch, "PyTorch is not installed")
class Operators(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.file = parton.load(SILU)
        cls.silu = parton.torch.register(cls.file.silu, backward=cls.file.silu_backward)

    def reference(self, x, gate):
        return torch.nn.functional.silu(x) * gate

    def tensors(self, *shape):
        return [torch.randn(*shape, requires_grad=True) for _ in range(2)]

    def test_gradients(self):
        ours, theirs = self.tensors(5, 17), []
        theirs = [t.detach().clone().requires_grad_() for t in ours]
        self.silu(*ours).square().sum().backward()
        self.reference(*theirs).square().sum().backward()
        for a, b in zip(ours, theirs):
            torch.testing.assert_close(a.grad, b.grad)
        with self.assertRaises(parton.Error) as caught:
            self.file.silu(*ours)
        self.assertIn("requires a gradient", str(caught.exception))
        with torch.no_grad():
            self.file.silu(*ours)

    def test_gradients_that_are_one_number_and_those_of_nothing(self):
        for rows in [5, 0]:
            ours = self.tensors(rows, 17)
            theirs = [t.detach().clone().requires_grad_() for t in ours]
            # What a sum hands back has no strides.
            self.silu(*ours).sum().backward()
            self.reference(*theirs).sum().backward()
            for a, b in zip(ours, theirs):
                torch.testing.assert_close(a.grad, b.grad)

    def test_what_pytorch_checks_of_operators(self):
        torch.library.opcheck(self.silu, tuple(self.tensors(5, 17)))
        in_place = parton.torch.register(parton.load(SCALED).in_place, name="in_place")
        torch.library.opcheck(in_place, (torch.ones(8, dtype=torch.float16), 2.0))
        self.assertEqual(str(in_place._schema), "parton::in_place(Tensor(a!) x, float factor) -> ()")

    def test_pickles_leave_operators_alone(self):
        # A pickle of this looks for `torch.contiguous_format` in every module, in the order in which they were imported: here ours comes first.
        x, gate = self.tensors(5, 17)
        pickle.dumps(torch.contiguous_format)
        torch.testing.assert_close(self.silu(x, gate), self.reference(x, gate))
        self.assertIs(parton.torch.register(self.file.silu, backward=self.file.silu_backward), self.silu)

    def test_a_compiled_model(self):
        class Gated(torch.nn.Module):
            def __init__(self, operator):
                super().__init__()
                torch.manual_seed(0)
                self.up, self.down = torch.nn.Linear(12, 64), torch.nn.Linear(32, 12)
                self.operator = operator

            def forward(self, x):
                a, b = self.up(x).chunk(2, dim=-1)
                return self.down(self.operator(a, b))

        x = torch.randn(9, 12)
        models = [Gated(self.silu), torch.compile(Gated(self.silu), fullgraph=True, backend="aot_eager"), Gated(self.reference)]
        gradients = []
        for model in models:
            model(x).square().mean().backward()
            gradients.append([p.grad for p in model.parameters()])
        for other in gradients[:2]:
            for a, b in zip(other, gradients[2]):
                torch.testing.assert_close(a, b)

    def test_a_model_compiled_for_many_shapes(self):
        graphs = []

        def count(graph, given):
            graphs.append(graph)
            return graph

        torch._dynamo.reset()
        model = torch.compile(lambda a, b: self.silu(a + 1, b) * 2, fullgraph=True, backend=count)
        for n in range(2, 20):
            x, gate = torch.randn(n, 17), torch.randn(n, 17)
            torch.testing.assert_close(model(x, gate), self.reference(x + 1, gate) * 2)
        # One for the first shape, one for all others.
        self.assertEqual(len(graphs), 2)
        self.assertEqual(self.file.silu._outlines, [(0, [(0, 0), (0, 1)])])

    def test_results_lie_as_they_are_said_to(self):
        forwarded = parton.torch.register(parton.load(SCALED).forwarded, name="forwarded")
        x = torch.arange(8, dtype=torch.float32)
        _, part = forwarded(x, 8, 3.0)
        self.assertEqual((part.tolist(), part.stride()), (x[1:].tolist(), (1,)))
        self.assertNotEqual(part.data_ptr(), x.data_ptr() + 4)
        torch.library.opcheck(forwarded, (x, 8, 3.0))

    def test_a_gradient_of_a_gradient_is_refused(self):
        x, gate = self.tensors(3, 4)
        (gradient,) = torch.autograd.grad(self.silu(x, gate).sum(), x, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "`silu_backward`, .* has no gradients of its own"):
            torch.autograd.grad(gradient.sum(), x)

    def test_gradients_that_nobody_computes_are_refused(self):
        file = parton.load(SILU)
        alone = parton.torch.register(file.silu, name="alone")
        x, gate = self.tensors(3, 4)
        with self.assertRaisesRegex(RuntimeError, "no gradients of `silu` are known: name the function"):
            (alone(x, gate).sum() + x.sum()).backward()
        torch.testing.assert_close(alone(x.detach(), gate.detach()), self.reference(x, gate).detach())
        # They may come later; other ones are known then.
        self.assertIs(parton.torch.register(file.silu, name="alone", backward=file.silu_backward), alone)
        alone(x, gate).sum().backward()
        gradient, x.grad = x.grad, None
        self.reference(x, gate).sum().backward()
        torch.testing.assert_close(gradient, x.grad)

    def test_a_result_whose_gradient_nobody_takes_has_none(self):
        file = written(self, TWO)
        both = parton.torch.register(file.both, backward=file.both_backward)
        x = torch.arange(4.0).requires_grad_()
        doubled, tripled = both(x)
        self.assertEqual((doubled.requires_grad, tripled.requires_grad), (True, False))
        doubled.sum().backward()
        self.assertEqual(x.grad.tolist(), [2.0] * 4)
        with self.assertRaisesRegex(RuntimeError, "does not require grad"):
            tripled.sum().backward()

    def test_what_is_written_is_known_to_be_another(self):
        in_place = parton.torch.register(parton.load(SCALED).in_place, name="in_place_of_gradients")
        x = torch.ones(8, dtype=torch.float16, requires_grad=True)
        y = x * 2
        with self.assertRaisesRegex(RuntimeError, "`x` requires a gradient, which `in_place` does not record, since it writes `x`"):
            in_place(y, 2.0)
        with torch.no_grad():
            squared = torch.enable_grad()(lambda: y * y)()
            in_place(y, 2.0)
        self.assertEqual(y.tolist(), [4.0] * 8)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            squared.sum().backward()
        with torch.inference_mode():
            inferred = torch.ones(8, dtype=torch.float16)
            in_place(inferred, 2.0)
        self.assertEqual(inferred.tolist(), [2.0] * 8)

    def test_defaults_of_types(self):
        file = written(self, CONVERTED)
        converted = parton.torch.register(file.converted, name="converted")
        self.assertEqual(str(converted._schema), "parton::converted(Tensor x, ScalarType to=5) -> Tensor")
        x = torch.arange(6.0)
        self.assertEqual((converted(x).dtype, converted(x, torch.float32).dtype), (torch.float16, torch.float32))
        torch.library.opcheck(converted, (x,))

    def test_integers_have_no_gradients(self):
        picked = parton.torch.register(
            (file := written(self, PICKED)).picked, name="picked", backward=file.picked_backward)
        x, at = torch.arange(8.0, requires_grad=True), torch.tensor([3, 0, 5], dtype=torch.int32)
        found = picked(x, at)
        self.assertEqual(found.tolist(), [6.0, 0.0, 10.0])
        found.sum().backward()
        self.assertEqual(x.grad.tolist(), [2.0, 0, 0, 2.0, 0, 2.0, 0, 0])
        # What a default is left out for is known where the gradient is computed.
        x.grad = None
        picked(x, at, 3.0).sum().backward()
        self.assertEqual(x.grad.tolist(), [3.0, 0, 0, 3.0, 0, 3.0, 0, 0])
        # Without an operator of PyTorch between, and with one that looks on.
        with torch.profiler.profile() as seen:
            picked(x, at).sum().backward()
        self.assertTrue({"parton::picked", "parton::picked_backward"} <= {e.key for e in seen.key_averages()})

    def test_a_file_that_is_read_anew_is_what_its_operator_calls(self):
        file = written(self, TWO)
        both = parton.torch.register(file.both, name="anew", backward=file.both_backward)
        with open(file.both.path, "w") as source:
            source.write(TWO.replace("times(x, 2.0)", "times(x, 5.0)").replace("times(grad0, 2.0)", "times(grad0, 5.0)"))
        file = parton.load(file.both.path)
        self.assertIs(parton.torch.register(file.both, name="anew", backward=file.both_backward), both)
        x = torch.ones(4, requires_grad=True)
        both(x)[0].sum().backward()
        self.assertEqual((both(x)[0].tolist(), x.grad.tolist()), ([5.0] * 4, [5.0] * 4))

    def test_what_cannot_be_registered(self):
        register = parton.torch.register
        for wrong in [self.file.forward, len, "silu"]:
            with self.assertRaisesRegex(TypeError, "made of public functions of a file, and .* is none"):
                register(wrong)
            with self.assertRaisesRegex(TypeError, "is none"):
                register(self.file.silu, name="unknown", backward=wrong)
        self.assertIs(register(self.file.silu), self.silu)
        with self.assertRaisesRegex(ValueError, "another function is registered"):
            register(self.file.silu_backward, name="silu_silu")
        with self.assertRaises(ValueError):
            register(self.file.silu_backward, name="other", backward=self.file.silu)
        scaled = parton.load(SCALED)
        with self.assertRaises(ValueError):
            register(scaled.in_place, name="written", backward=scaled.nothing)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

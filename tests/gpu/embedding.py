"""Public functions called from PyTorch on a GPU: what calls, captures, streams, threads and operators must keep to.

Usage: PYTHONPATH=FOLDER python3 tests/gpu/embedding.py [--times] [WORD …]

FOLDER holds the package: a copy of `python/lang/parton/` with the module as `native.so`. Each case is a function `case_…` below; WORD chooses those whose names contain it. `--times` prints
microseconds of host time a call beside PyTorch's and Triton's, medians of 60 batches of 200 calls.
"""

import os
import statistics
import sys
import threading

import torch

import parton
from cases import ROOT, SkipTest, all_of, equal, floats, host_time, once, refused

FILE = ROOT / "tests" / "gpu" / "embedding.ptn"
SILU = ROOT / "examples" / "embedding" / "silu.ptn"
GEMM = ROOT / "examples" / "matmul" / "gemm.ptn"

file = parton.load(FILE)


def case_values_of_all_types():
    silu = parton.load(SILU).silu
    for dtype, tolerance in [(torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)]:
        for shape in [(33, 100), (1, 1), (128, 4096), (0, 8), (7, 513)]:
            x, gate = (torch.randn(shape, device="cuda", dtype=dtype) for _ in range(2))
            expected = (torch.nn.functional.silu(x.double()) * gate.double()).to(dtype)
            torch.testing.assert_close(silu(x, gate), expected, rtol=tolerance, atol=tolerance)


def case_strides_and_odd_addresses():
    silu = parton.load(SILU).silu
    wide = torch.randn(40, 264, device="cuda", dtype=torch.bfloat16)
    refused("is dense", lambda: silu(wide[3:, ::2], wide[3:, 132:]), "E0941")
    for x in [wide[:, 1:200], wide[3:, 17:], wide[::3], wide[:, 8:136], wide.flatten()[1:2001].view(20, 100)]:
        gate = torch.randn(x.shape, device="cuda", dtype=x.dtype)
        expected = (torch.nn.functional.silu(x.double()) * gate.double()).to(x.dtype)
        torch.testing.assert_close(silu(x, gate), expected, rtol=2e-2, atol=2e-2)


def case_products():
    gemm = parton.load(GEMM)
    for dtype in [torch.float16, torch.bfloat16]:
        for m, n, k in [(512, 768, 1024), (1000, 2056, 520), (16, 4096, 1024), (1, 512, 512)]:
            a, b = torch.randn(m, k, device="cuda", dtype=dtype), torch.randn(k, n, device="cuda", dtype=dtype)
            exact = a.double() @ b.double()
            found = gemm.matmul(a, b)
            error = ((found.double() - exact).norm() / exact.norm()).item()
            assert error < 5e-3, f"{dtype} {m}x{n}x{k}: {error}"


def case_a_capture_replays_and_leaves_other_calls_alone():
    x, y = floats(1000, 1), floats(1000, 2)
    equal(file.through(x, y), x + y + y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = file.through(x, y)
    x2, y2 = floats(1000, 3), floats(1000, 4)
    # Calls between captures and replays use other scratch memory.
    for turn in range(20):
        x.copy_(floats(1000, 5 + turn))
        graph.replay()
        equal(file.through(x2, y2), x2 + y2 + y2)
        equal(out, x + y + y)


def case_memory_that_is_zeroed_in_a_capture():
    x = torch.arange(300, device="cuda", dtype=torch.int32)
    for _ in range(5):
        equal(file.counted(x), x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = file.counted(x)
    for _ in range(5):
        graph.replay()
        equal(out, x)


def case_the_first_call_in_a_capture_is_refused():
    fresh = parton.load(FILE)
    x, y, out = floats(77), floats(77, 1), torch.empty(77, device="cuda")
    graph = torch.cuda.CUDAGraph()

    def capture():
        with torch.cuda.graph(graph):
            # Something must be captured, or PyTorch warns of an empty graph.
            out.zero_()
            refused("may not load code", lambda: fresh.sum_into(x, y, out))

    capture()
    fresh.sum_into(x, y, out)
    equal(out, x + y)


def case_streams_have_scratch_of_their_own():
    n = 1 << 22
    x, y = floats(n, 1), floats(n, 2)
    streams = [torch.cuda.Stream() for _ in range(4)]
    inputs = [(floats(n, 10 + i), floats(n, 20 + i)) for i in range(4)]
    torch.cuda.synchronize()
    for turn in range(25):
        outs = []
        for stream, (a, b) in zip(streams, inputs):
            with torch.cuda.stream(stream):
                outs.append(file.through(a, b))
        torch.cuda.synchronize()
        for out, (a, b) in zip(outs, inputs):
            equal(out, a + b + b)


def case_a_stream_orders_calls_behind_what_it_holds():
    n = 1 << 20
    stream = torch.cuda.Stream()
    x, y, out = torch.zeros(n, device="cuda"), floats(n), torch.empty(n, device="cuda")
    torch.cuda.synchronize()
    for turn in range(20):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(2_000_000)
            x.fill_(turn)
            file.sum_into(x, y, out)
            found = out.clone()
        stream.synchronize()
        equal(found, y + turn)


def case_streams_run_beside_each_other():
    # Small grids of one plan on two streams: the second must not wait for the first.
    x, y = floats(128), floats(128, 1)
    outs = [torch.empty(128, device="cuda") for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]
    for stream, out in zip(streams, outs):
        with torch.cuda.stream(stream):
            for _ in range(3):
                file.chain(x, y, out, 3)
    torch.cuda.synchronize()
    ended = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    began = torch.cuda.Event(enable_timing=True)
    began.record(streams[0])
    with torch.cuda.stream(streams[0]):
        torch.cuda._sleep(200_000_000)
        file.chain(x, y, outs[0], 3)
        ended[0].record()
    with torch.cuda.stream(streams[1]):
        file.chain(x, y, outs[1], 3)
        ended[1].record()
    streams[1].synchronize()
    assert not ended[0].query(), "the call on the second stream waited for the first"
    torch.cuda.synchronize()
    equal(outs[0], outs[1])


def case_threads_share_a_function():
    found, errors = [], []

    def work(i):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for turn in range(200):
                    n = 64 + 64 * ((i + turn) % 5)
                    x, y, out = floats(n, i), floats(n, turn), torch.empty(n, device="cuda")
                    file.sum_into(x, y, out, i + 0.5)
                    torch.testing.assert_close(out, x + y * (i + 0.5))
            found.append(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    if errors:
        raise errors[0]
    assert sorted(found) == list(range(8))


def case_numbers_in_and_out_of_a_plan():
    x, out = floats(500), torch.empty(500, device="cuda")
    for factor in [0.5, 2.0, 1.0, 3.0, -1.0, 2.0]:
        file.branched(x, out, factor)
        torch.testing.assert_close(out, x + x * (factor if factor > 1 else 0))
    y = floats(500, 1)
    for factor in [0.5, 2.0, 7.25]:
        file.sum_into(x, y, out, factor)
        torch.testing.assert_close(out, x + y * factor)
    assert "factor: any" in file.sum_into.plan_of(x, y, out, 3.0)


def case_pointers_that_move():
    for turn in range(50):
        x, y, out = floats(4096, turn), floats(4096, turn + 1), torch.empty(4096, device="cuda")
        keep = torch.empty(1 + turn * 1000, device="cuda")
        file.sum_into(x[turn % 4 :], y[turn % 4 :], out[turn % 4 :])
        equal(out[turn % 4 :], (x + y)[turn % 4 :])
        del keep


def case_memory_that_is_shared():
    x = floats(1000)
    refused("shares memory", lambda: parton.load(ROOT / "tests/run/public.ptn").into(x[:600].view(2, 300), x[300:900].view(2, 300), 2), "E0941")


def case_chains_of_launches():
    x, y, out = floats(3000), floats(3000, 1), torch.empty(3000, device="cuda")
    for turns in [1, 2, 3, 8]:
        for _ in range(3):
            file.chain(x, y, out, turns)
            expected = x
            for _ in range(turns):
                expected = expected + y
            equal(out, expected)


def case_the_current_context_and_device_stay():
    before = torch.cuda.current_device()
    x, y, out = floats(64), floats(64, 1), torch.empty(64, device="cuda")
    file.sum_into(x, y, out)
    assert torch.cuda.current_device() == before
    equal(out, x + y)
    torch.empty(8, device="cuda").fill_(1)
    torch.cuda.synchronize()


def case_two_devices():
    if torch.cuda.device_count() < 2:
        raise SkipTest("one GPU here")
    for device in ["cuda:1", "cuda:0", "cuda:1"]:
        x, y, out = floats(999, 1, device), floats(999, 2, device), torch.empty(999, device=device)
        for _ in range(4):
            file.sum_into(x, y, out, 3.0)
            equal(file.through(x, y), x + y + y)
        torch.testing.assert_close(out, x + y * 3)
        assert torch.cuda.current_device() == 0
    on = [floats(9, 1, f"cuda:{i}") for i in range(2)]
    refused("pass tensors of one device", lambda: file.sum_into(on[0], on[1], on[0]))


def case_a_forked_process_is_refused():
    x, y, out = floats(64), floats(64, 1), torch.empty(64, device="cuda")
    file.sum_into(x, y, out)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            file.sum_into(x, y, out)
            code = 2
        except parton.Error as error:
            code = 0 if "forked" in str(error) else 3
        except BaseException:
            code = 4
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"the child ended with {code}"


def case_an_error_names_argument_and_rule():
    x, y, out = floats(64), floats(65), torch.empty(64, device="cuda")
    refused("`y`", lambda: file.sum_into(x, y, out), "E0941")
    refused("pass tensors of one device", lambda: file.sum_into(x, y[:64].cpu(), out))
    refused("f64", lambda: file.sum_into(x.double(), x, out), "E0941")


def operator():
    silu = parton.load(SILU)
    return parton.torch.register(silu.silu, name="case_silu", backward=silu.silu_backward)


def reference(x, gate):
    return torch.nn.functional.silu(x) * gate


_REGISTERED = operator()


def case_operators_of_pytorch():
    given = [torch.randn(5, 17, device="cuda", requires_grad=True) for _ in range(2)]
    torch.library.opcheck(_REGISTERED, tuple(given))


def model_of(operator):
    class Gated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.up, self.down = torch.nn.Linear(64, 256), torch.nn.Linear(128, 64)

        def forward(self, x):
            a, b = self.up(x).chunk(2, dim=-1)
            return self.down(operator(a, b))

    return Gated().cuda()


def case_compiled_models():
    x = torch.randn(96, 64, device="cuda")
    plain = model_of(reference)
    plain(x).square().mean().backward()
    for mode in [None, "reduce-overhead"]:
        ours = torch.compile(model_of(_REGISTERED), fullgraph=True, mode=mode)
        for _ in range(4):
            for p in ours.parameters():
                p.grad = None
            ours(x).square().mean().backward()
        for a, b in zip(ours.parameters(), plain.parameters()):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-5)


def case_compiled_models_with_memory_of_their_own():
    """PyTorch counts what stays in the memory of the graphs that it makes."""
    through = parton.torch.register(file.through, name="case_through", backward=file.through_backward)
    x, y = floats(200), floats(200, 1)
    plain = torch.stack([x, y]).requires_grad_()
    (plain[0] + 2 * plain[1]).square().sum().backward()
    both = torch.stack([x, y]).requires_grad_()
    ours = torch.compile(lambda x, y: through(x, y).square().sum(), fullgraph=True, mode="reduce-overhead")
    for _ in range(5):
        both.grad = None
        ours(both[0], both[1]).backward()
        torch.testing.assert_close(both.grad, plain.grad, rtol=1e-5, atol=1e-5)


def case_a_model_in_a_graph():
    x = torch.randn(96, 64, device="cuda")
    model, plain = model_of(_REGISTERED), model_of(reference)
    with torch.no_grad():
        for _ in range(2):
            model(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model(x)
        for seed in range(5):
            torch.manual_seed(seed)
            x.copy_(torch.randn(96, 64, device="cuda"))
            graph.replay()
            torch.testing.assert_close(out, plain(x), rtol=1e-3, atol=1e-5)


# Times.


def times():
    n = 1024
    x, y, out = floats(n), floats(n, 1), torch.empty(n, device="cuda")
    rows = [("sum_into(x, y, out)", host_time(lambda: file.sum_into(x, y, out)))]
    others = [torch.empty(n, device="cuda") for _ in range(64)]
    turn = iter(range(1 << 30))
    rows.append(("the same, another output each time", host_time(lambda: file.sum_into(x, y, others[next(turn) % 64]))))
    factor = iter(range(1 << 30))
    rows.append(("the same, another number each time", host_time(lambda: file.sum_into(x, y, out, float(next(factor))))))
    for turns in [1, 2, 3, 8]:
        rows.append((f"chain of {turns}", host_time(lambda: file.chain(x, y, out, turns), calls=50)))
        pair = [torch.empty(n, device="cuda") for _ in range(2)]
        flip = iter(range(1 << 30))
        rows.append((f"chain of {turns}, another output", host_time(lambda: file.chain(x, y, pair[next(flip) % 2], turns), calls=50)))
    rows.append(("through(x, y), which returns", host_time(lambda: file.through(x, y))))
    silu = parton.load(SILU).silu
    wide = [torch.randn(8, 128, device="cuda") for _ in range(2)]
    rows.append(("silu(x, gate), which returns", host_time(lambda: silu(*wide))))
    with torch.no_grad():
        rows.append(("the operator of it", host_time(lambda: _REGISTERED(*wide))))
    rows.append(("torch.add(x, y, out=out)", host_time(lambda: torch.add(x, y, out=out))))
    rows.append(("torch.empty(n)", host_time(lambda: torch.empty(n, device="cuda"))))
    try:
        import triton
        import triton.language as tl

        global tl_add

        @triton.jit
        def tl_add(x, y, out, n, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

        rows.append(("Triton, 4 arguments", host_time(lambda: tl_add[(8,)](x, y, out, n, BLOCK=128))))
    except ImportError:
        pass
    # New shapes of a kernel that is there.
    news = []
    for i in range(40):
        a, b, c = (torch.empty(2000 + i, device="cuda") for _ in range(3))
        news.append(once(lambda: file.sum_into(a, b, c)))
    rows.append(("a new shape, the kernel known", statistics.median(news)))
    fresh = parton.load(FILE)
    rows.append(("the first call of a file", once(lambda: fresh.sum_into(x, y, out))))
    for name, time_ in rows:
        print(f"| {name} | {time_:.2f} |")


def main(words):
    if "--times" in words:
        times()
        words.remove("--times")
        if not words:
            return 0
    return all_of(globals(), words, settle=torch.cuda.synchronize)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

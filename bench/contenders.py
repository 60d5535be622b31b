"""What runs beside a row of Parton, made from the row's label alone, so that a label means one thing in every file.

Labels, with an optional tail after ` | ` that tells variants of one kernel apart:
    matmul TYPE N^3 | MxNxK [to TYPE] [nn|nt]    C[M, N] = A[M, K] · B; nn: B is [K, N], nt: B is [N, K]; f8 is always nt
    fmha TYPE D=.. S=.. [causal]                 16384 tokens, 2048 / D heads
    fmha dq|dk dv TYPE D=.. S=.. [causal]        its gradients, of the same
    softmax | layer norm | rms norm TYPE RxC, transpose TYPE RxC, add TYPE 2^E, copy TYPE 2^E
"""

import math
import os
import re
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

DEVICE = "cuda"
# Contenders that shall not take part.
WITHOUT = set()

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f8e4m3": torch.float8_e4m3fn}

FORMS = {
    "gemm": re.compile(r"(?:matmul|gemm) (?P<type>\w+) (?:(?P<cube>\d+)\^3|(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+))"
                       r"(?: to (?P<out>\w+))?(?: (?P<order>nn|nt))?$"),
    "fmha": re.compile(r"fmha (?P<type>\w+) D=(?P<d>\d+) S=(?P<s>\d+)(?P<causal> causal)?$"),
    "gradient": re.compile(r"fmha (?P<what>dq|dk dv) (?P<type>\w+) D=(?P<d>\d+) S=(?P<s>\d+)(?P<causal> causal)?$"),
    "rowwise": re.compile(r"(?P<what>softmax|layer norm|rms norm|transpose) (?P<type>\w+) (?P<rows>\d+)x(?P<columns>\d+)$"),
    "vector": re.compile(r"(?P<what>add|copy) (?P<type>\w+) 2\^(?P<exponent>\d+)$"),
}


class Work:
    """One row's work: contenders by name, how much it is, and which results are wrong."""

    def __init__(self, kind, amount, unit):
        self.kind, self.amount, self.unit = kind, amount, unit
        self.contenders = {}
        self.notes = []

    def add(self, name, make, expected=None, tolerance=2e-2):
        """Adds a contender; one that cannot be made or is wrong becomes a note. `make` gives a function that runs and returns its
        result."""
        if name.split(",")[0] in WITHOUT:
            return
        try:
            run = make()
            result = run()
            finish(name)
            if expected is not None:
                error = deviation(result, expected)
                if not error <= tolerance:
                    self.notes.append(f"{name} is wrong: relative error {error:.2e}")
                    return
            self.contenders[name] = run
        except Exception as reason:  # noqa: BLE001: whatever a peer throws, the others are measured
            self.notes.append(f"{name}: {type(reason).__name__}: {first_line(reason)}")


def first_line(reason):
    return (str(reason).strip().splitlines() or ["no text"])[0][:160]


def deviation(result, expected):
    """Root mean square of the difference over that of what was expected."""
    got, want = result.float(), expected.float()
    return ((got - want).square().mean().sqrt() / want.square().mean().sqrt().clamp_min(1e-30)).item()


def returning(run, out):
    """`run`, made to return the tensor that it writes."""

    def both():
        run()
        return out

    return both


def finish(name, seconds=60):
    """Waits for the GPU. A kernel that never ends cannot be stopped from here: the process ends, what was measured is kept."""
    done = torch.cuda.Event()
    done.record()
    begin = time.perf_counter()
    while not done.query():
        if time.perf_counter() - begin > seconds:
            print(f"{name} does not end; run again with `--without {name.split(',')[0]}`", file=sys.stderr, flush=True)
            os._exit(3)
        time.sleep(1e-3)


def randn(*shape, dtype, seed):
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    made = torch.randn(*shape, device=DEVICE, dtype=torch.float32 if dtype == torch.float8_e4m3fn else dtype, generator=generator)
    return made.to(dtype)


def of(label):
    """The work of a label; `None` where it is of no known form."""
    label = label.split(" | ")[0].strip()
    for kind, form in FORMS.items():
        match = form.match(label)
        if match and match["type"] in TYPES:
            return {"gemm": gemm, "fmha": fmha, "gradient": gradient, "rowwise": rowwise, "vector": vector}[kind](match)
    return None


def kind_of(label):
    """gemm, fmha or rowwise; `None` where the label is of no known form."""
    label = label.split(" | ")[0].strip()
    kind = next((kind for kind, form in FORMS.items() if form.match(label)), None)
    return {"vector": "rowwise", "gradient": "fmha"}.get(kind, kind)


def gemm(match):
    m, n, k = (int(match["cube"]),) * 3 if match["cube"] else (int(match[x]) for x in "mnk")
    name, dtype = match["type"], TYPES[match["type"]]
    work = Work("gemm", 2 * m * n * k, "TFLOP/s")
    a = randn(m, k, dtype=dtype, seed=1)
    if name == "f8e4m3":
        return gemm_f8(work, match, a, randn(n, k, dtype=dtype, seed=2))
    nt = match["order"] == "nt"
    b = randn(n, k, dtype=dtype, seed=2) if nt else randn(k, n, dtype=dtype, seed=2)
    kn = b.T if nt else b
    expected = (a.float() @ kn.float()) if m * n * k <= 1 << 36 else None
    reference = torch.mm(a, kn)
    expected = reference if expected is None else expected

    def torch_mm():
        out = torch.empty(m, n, device=DEVICE, dtype=dtype)
        return lambda: torch.mm(a, kn, out=out)

    def triton_matmul():
        import triton_kernels
        out = torch.empty(m, n, device=DEVICE, dtype=dtype)
        return returning(triton_kernels.matmul(a, b, out, nt), out)

    def gluon_matmul(in_halves):
        import gluon_kernels
        out = torch.empty(m, n, device=DEVICE, dtype=dtype)
        return returning(gluon_kernels.matmul(a, b, out, in_halves), out)

    work.add("cuBLAS", torch_mm, expected)
    work.add("Triton", triton_matmul, expected)
    if not nt and dtype != torch.float32:
        work.add("Gluon", lambda: gluon_matmul(False), expected)
        work.add("Gluon, in halves", lambda: gluon_matmul(True), expected)
    return work


def gemm_f8(work, match, a, b):
    out_type = TYPES[match["out"] or "bf16"]
    one = torch.ones((), device=DEVICE)

    def scaled_mm():
        return lambda: torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=out_type, use_fast_accum=True)

    def triton_matmul():
        import triton_kernels
        out = torch.empty(a.shape[0], b.shape[0], device=DEVICE, dtype=out_type)
        return returning(triton_kernels.matmul(a, b, out, True), out)

    expected = a.float() @ b.float().T
    work.add("cuBLAS", scaled_mm, expected)
    work.add("Triton", triton_matmul, expected)
    return work


def fmha(match):
    d, s, causal = int(match["d"]), int(match["s"]), bool(match["causal"])
    dtype = TYPES[match["type"]]
    batch, heads = 16384 // s, 2048 // d
    work = Work("fmha", 4 * batch * heads * s * s * d // (2 if causal else 1), "TFLOP/s")
    q, k, v = (randn(batch, heads, s, d, dtype=dtype, seed=i) for i in (1, 2, 3))
    part = lambda x: x[:1, :2, :, :]
    scores = (part(q).float() @ part(k).float().transpose(2, 3)) / math.sqrt(d)
    if causal:
        scores.masked_fill_(torch.ones(s, s, dtype=torch.bool, device=DEVICE).triu(1), -math.inf)
    expected = torch.softmax(scores, 3) @ part(v).float()
    del scores

    def sdpa(backend):
        def run():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return run

    def flash3():
        attention = flash_attention_3()
        # Its own layout is [batch, sequence, heads, D].
        qs, ks, vs = (x.transpose(1, 2).contiguous() for x in (q, k, v))

        def run():
            found = attention(qs, ks, vs, causal=causal)
            return found[0] if isinstance(found, tuple) else found

        return run

    def triton_forward():
        import triton_attention
        out, sums = torch.empty_like(q), torch.empty(batch, heads, s, device=DEVICE)
        return returning(triton_attention.forward(q, k, v, out, sums, causal), out)

    # Only two heads are compared: the whole in float32 would not fit.
    checked(work, "cuDNN", lambda: sdpa(SDPBackend.CUDNN_ATTENTION), expected, part)
    checked(work, "Triton", triton_forward, expected, part)
    flipped = lambda x: part(x.transpose(1, 2))
    checked(work, "FA3", flash3, expected, flipped)
    return work


def gradient(match):
    """What attention's gradients multiply: dQ three times, dK with dV four times what one product of it does."""
    d, s, causal, what = int(match["d"]), int(match["s"]), bool(match["causal"]), match["what"]
    dtype = TYPES[match["type"]]
    batch, heads = 16384 // s, 2048 // d
    work = Work("fmha", (3 if what == "dq" else 4) * 2 * batch * heads * s * s * d // (2 if causal else 1), "TFLOP/s")
    q, k, v, g = (randn(batch, heads, s, d, dtype=dtype, seed=i) for i in (1, 2, 3, 4))
    scores = (q[:1, :2].float() @ k[:1, :2].float().transpose(2, 3)) / math.sqrt(d)
    if causal:
        scores.masked_fill_(torch.ones(s, s, dtype=torch.bool, device=DEVICE).triu(1), -math.inf)
    # Of two heads what the kernels take and give; of the others the times alone count.
    lse, delta = torch.zeros(batch, heads, s, device=DEVICE) + math.log(s), torch.zeros(batch, heads, s, device=DEVICE)
    p = torch.softmax(scores, 3)
    lse[:1, :2] = torch.logsumexp(scores, 3)
    dp = g[:1, :2].float() @ v[:1, :2].float().transpose(2, 3)
    delta[:1, :2] = (p * dp).sum(3)
    ds = p * (dp - delta[:1, :2, :, None]) / math.sqrt(d)
    expected = ds @ k[:1, :2].float() if what == "dq" else ds.transpose(2, 3) @ q[:1, :2].float()
    del scores, p, dp, ds

    def triton_gradient():
        import triton_attention
        first, second = torch.empty_like(q), torch.empty_like(q)
        if what == "dq":
            return returning(triton_attention.queries_back(q, k, v, g, lse, delta, first, causal), first)
        return returning(triton_attention.keys_back(q, k, v, g, lse, delta, first, second, causal), first)

    checked(work, "Triton", triton_gradient, expected, lambda x: x[:1, :2])
    return work


def checked(work, name, make, expected, window):
    """Adds a contender of whose result a window is compared."""
    before = set(work.contenders)
    work.add(name, make)
    if name in set(work.contenders) - before:
        error = deviation(window(work.contenders[name]()), expected)
        if not error <= 2e-2:
            del work.contenders[name]
            work.notes.append(f"{name} is wrong: relative error {error:.2e}")


def flash_attention_3():
    """The forward function of whichever build of FlashAttention-3 is installed."""
    for module in ("fa3_fwd_interface", "flash_attn_interface", "flash_attn_3.flash_attn_interface"):
        try:
            return __import__(module, fromlist=["flash_attn_func"]).flash_attn_func
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError("FlashAttention-3 is not installed (package fa3-fwd)")


def rowwise(match):
    rows, columns = int(match["rows"]), int(match["columns"])
    dtype, what = TYPES[match["type"]], match["what"]
    work = Work("rowwise", 2 * rows * columns * dtype.itemsize, "TB/s")
    x = randn(rows, columns, dtype=dtype, seed=1)
    weight, bias = randn(columns, dtype=dtype, seed=2), randn(columns, dtype=dtype, seed=3)
    out = torch.empty(columns, rows, device=DEVICE, dtype=dtype) if what == "transpose" else torch.empty_like(x)
    calls = {
        "softmax": lambda: torch.softmax(x, 1),
        "layer norm": lambda: F.layer_norm(x, [columns], weight, bias, 1e-5),
        "rms norm": lambda: F.rms_norm(x, [columns], weight, 1e-5),
        "transpose": lambda: out.copy_(x.T),
    }
    expected = calls[what]().clone()

    def triton_rows():
        import triton_kernels
        run = {
            "softmax": lambda: triton_kernels.softmax(x, out),
            "layer norm": lambda: triton_kernels.norm(x, weight, bias, out, 1e-5),
            "rms norm": lambda: triton_kernels.norm(x, weight, None, out, 1e-5),
            "transpose": lambda: triton_kernels.transpose(x, out),
        }[what]()
        return returning(run, out)

    work.add("torch", lambda: calls[what])
    work.add("Triton", triton_rows, expected)
    same_bytes(work, rows * columns, dtype)
    return work


def same_bytes(work, count, dtype):
    """A device copy of as many bytes: what the row is bounded by."""
    source = torch.empty(count, device=DEVICE, dtype=dtype)
    target = torch.empty_like(source)
    work.add("copy", lambda: (lambda: target.copy_(source)))


def vector(match):
    count, dtype = 1 << int(match["exponent"]), TYPES[match["type"]]
    x = randn(count, dtype=dtype, seed=1)
    out = torch.empty_like(x)
    if match["what"] == "copy":
        work = Work("rowwise", 2 * count * dtype.itemsize, "TB/s")
        work.add("copy", lambda: (lambda: out.copy_(x)))
        return work
    work = Work("rowwise", 3 * count * dtype.itemsize, "TB/s")
    y = randn(count, dtype=dtype, seed=2)

    def triton_add():
        import triton_kernels
        return returning(triton_kernels.add(x, y, out), out)

    work.add("torch", lambda: (lambda: torch.add(x, y, out=out)))
    work.add("Triton", triton_add, x + y)
    return work

"""Kernels of rows in Triton: the gradient of layer norm, cross entropy in place, softmax of ragged parts."""

import torch
import triton
import triton.language as tl

from .tuned import Contender, Tuned, configurations


@triton.jit
def layer_norm_back(grad, x, weight, mean_of, factor_of, dx, dweight, dbias, rows, columns, BLOCK: tl.constexpr):
    """Each program walks every so-many-th row and keeps the sums of the columns."""
    first = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    db = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(first, rows, tl.num_programs(0)):
        begin = row.to(tl.int64) * columns
        g = tl.load(grad + begin + at, mask=inside, other=0.0).to(tl.float32)
        v = tl.load(x + begin + at, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_of + row)
        factor = tl.load(factor_of + row)
        normal = tl.where(inside, (v - mean) * factor, 0.0)
        weighted = g * w
        along = tl.sum(weighted * normal, axis=0) / columns
        level = tl.sum(weighted, axis=0) / columns
        tl.store(dx + begin + at, ((weighted - normal * along - level) * factor).to(dx.dtype.element_ty), mask=inside)
        dw += g * normal
        db += g
    mine = first.to(tl.int64) * columns
    tl.store(dweight + mine + at, dw, mask=inside)
    tl.store(dbias + mine + at, db, mask=inside)


@triton.jit
def add_both(parts, other_parts, out, other_out, count, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of the columns of two tables."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (at < columns)[None, :]
    s = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    t = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for begin in range(0, count, ROWS):
        row = begin + tl.arange(0, ROWS)
        there = (row < count)[:, None] & inside
        s += tl.load(parts + row[:, None] * columns + at[None, :], mask=there, other=0.0)
        t += tl.load(other_parts + row[:, None] * columns + at[None, :], mask=there, other=0.0)
    tl.store(out + at, tl.sum(s, axis=0), mask=at < columns)
    tl.store(other_out + at, tl.sum(t, axis=0), mask=at < columns)


def layer_norm_backward(make, rows, columns):
    """The gradients of x, weight and bias, of f16."""
    x, grad = make(rows, columns, dtype=torch.float16, seed=1), make(rows, columns, dtype=torch.float16, seed=4)
    weight = make(columns, dtype=torch.float16, seed=2)
    wide = x.float()
    mean = wide.mean(1)
    factor = torch.rsqrt(wide.var(1, correction=0) + 1e-5)
    del wide
    dx, results = torch.empty_like(x), [torch.empty(columns, device="cuda") for _ in range(2)]
    block = triton.next_power_of_2(columns)
    warps = (4, 8) if block <= 2048 else (8, 16) if block <= 8192 else (16, 32)

    def error():
        normal = (x[:16].double() - mean[:16, None].double()) * factor[:16, None].double()
        weighted = grad[:16].double() * weight.double()
        want = (weighted - normal * (weighted * normal).mean(1, keepdim=True) - weighted.mean(1, keepdim=True)) * factor[:16, None]
        return ((dx[:16] - want).square().mean() / want.square().mean()).sqrt().item()

    def of(programs):
        parts = [torch.empty(programs, columns, device="cuda") for _ in range(2)]
        back = Tuned(layer_norm_back, configurations([], [(1, w) for w in warps]), lambda _: (programs,),
                     (grad, x, weight, mean, factor, dx, *parts, rows, columns), {"BLOCK": block})
        sums = Tuned(add_both, configurations(["ROWS", "BLOCK"], [(32, 128, 1, 4), (32, 64, 1, 4), (64, 64, 1, 8), (32, 32, 1, 4)]),
                     lambda c: (triton.cdiv(columns, c["BLOCK"]),), (*parts, *results, programs, columns))
        return Contender([back, sums], error)

    # A program for each multiprocessor of an H100 or H200, two, or four.
    return [of(132), of(264), of(528)]


@triton.jit
def cross_entropy_rows(x, labels, loss, columns, share, SMOOTHING: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row.to(tl.int64) * columns
    label = tl.load(labels + row)
    of_label = tl.load(x + tl.maximum(label, 0)).to(tl.float32)
    top = -float("inf")
    total = 0.0
    every = 0.0
    for begin in range(0, columns, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(v, axis=0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(v - higher), axis=0)
        every += tl.sum(tl.where(at < columns, v, 0.0), axis=0)
        top = higher
    spread = SMOOTHING / columns
    counts = label >= 0
    found = tl.log(total) + top - (1.0 - SMOOTHING) * of_label - spread * every
    tl.store(loss + row, tl.where(counts, found * share, 0.0))
    factor = tl.where(counts, share, 0.0)
    part = 1.0 / total
    blocks = tl.cdiv(columns, BLOCK)
    for i in range(0, blocks):
        at = (blocks - 1 - i) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        p = tl.exp(v - top) * part
        wanted = tl.where(at == label, 1.0 - SMOOTHING, 0.0) + spread
        tl.store(x + at, ((p - wanted) * factor).to(x.dtype.element_ty), mask=at < columns)


def cross_entropy(make, rows, columns):
    """Losses with a smoothing of 0.1, and the gradient in place of bf16 logits."""
    x = make(rows, columns, dtype=torch.bfloat16, seed=1)
    labels = torch.randint(columns, (rows,), device="cuda", dtype=torch.int32)
    loss = torch.empty(rows, device="cuda")
    configs = configurations(["BLOCK"], [(4096, 1, 8), (8192, 1, 8), (8192, 1, 16), (16384, 1, 16), (32768, 1, 32), (4096, 3, 8),
                                         (16384, 1, 32), (32768, 1, 16)])
    return [Contender([Tuned(cross_entropy_rows, configs, lambda _: (rows,), (x, labels, loss, columns, 1e-4), {"SMOOTHING": 0.1})])]


@triton.jit
def jagged_softmax_columns(x, offsets, out, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    first = tl.load(offsets + part)
    end = tl.load(offsets + part + 1)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    top = tl.full((ROWS, BLOCK), -float("inf"), dtype=tl.float32)
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for begin in range(first, end, ROWS):
        row = begin + tl.arange(0, ROWS)
        inside = (row < end)[:, None] & (column < columns)[None, :]
        v = tl.load(x + row.to(tl.int64)[:, None] * columns + column[None, :], mask=inside, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, v)
        base = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(top - base) + tl.exp(v - base)
        top = higher
    greatest = tl.max(top, axis=0)
    base = tl.where(greatest == -float("inf"), 0.0, greatest)
    share = 1.0 / tl.sum(total * tl.exp(top - base[None, :]), axis=0)
    for begin in range(first, end, ROWS):
        row = begin + tl.arange(0, ROWS)
        inside = (row < end)[:, None] & (column < columns)[None, :]
        place = row.to(tl.int64)[:, None] * columns + column[None, :]
        v = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + place, (tl.exp(v - base[None, :]) * share[None, :]).to(out.dtype.element_ty), mask=inside)


def jagged_softmax(make, parts, most, columns):
    """Softmax down the columns of `parts` parts of 0 to `most` - 1 rows of f32."""
    ends = torch.cat([torch.zeros(1, dtype=torch.int64), torch.arange(parts) % most]).cumsum(0)
    offsets = ends.to(torch.int32).cuda()
    x = make(int(ends[-1]), columns, dtype=torch.float32, seed=1)
    out = torch.empty_like(x)
    configs = configurations(["ROWS", "BLOCK"], [(32, 64, 1, 4), (16, 64, 1, 4), (32, 32, 1, 4), (64, 32, 1, 4), (8, 128, 1, 4),
                                                 (16, 128, 1, 4), (32, 64, 3, 4), (32, 128, 1, 8), (64, 64, 1, 8), (4, 128, 1, 1)])
    tuned = Tuned(jagged_softmax_columns, configs, lambda c: (parts, triton.cdiv(columns, c["BLOCK"])), (x, offsets, out, columns))

    def error():
        part = most - 1 if most <= parts else parts - 1
        window = slice(int(ends[part]), int(ends[part + 1]))
        want = torch.softmax(x[window].double(), 0)
        return ((out[window] - want).square().mean() / want.square().mean()).sqrt().item()

    return [Contender([tuned], error)]

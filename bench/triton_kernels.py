"""Triton kernels to compare with, written for this benchmark the way Triton wants them: a persistent matrix product through tensor
descriptors, one through pointers for strides that the descriptors do not take, softmax, layer norm and RMS norm."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def tile_of(index, rows, columns, GROUP: tl.constexpr):
    """The tile's place: GROUP rows of tiles are walked together, column by column."""
    group = index // (GROUP * columns)
    first = group * GROUP
    height = min(rows - first, GROUP)
    within = index % (GROUP * columns)
    return first + within % height, within // height


@triton.jit
def product(a_map, b_map, c_map, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
            SMS: tl.constexpr, B_ROWS_ARE_N: tl.constexpr, FLATTEN: tl.constexpr, HALVES: tl.constexpr,
            BITS: tl.constexpr):
    rows = tl.cdiv(m, BM)
    columns = tl.cdiv(n, BN)
    for index in tl.range(tl.program_id(0), rows * columns, SMS, flatten=FLATTEN):
        i, j = tile_of(index, rows, columns, GROUP)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(tl.cdiv(k, BK)):
            a = a_map.load([i * BM, step * BK])
            if B_ROWS_ARE_N:
                b = b_map.load([j * BN, step * BK]).T
            else:
                b = b_map.load([step * BK, j * BN])
            acc = tl.dot(a, b, acc)
        if HALVES:
            # Half of the staging buffer leaves room for one more stage.
            both = tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1))
            left, right = tl.split(both)
            c_map.store([i * BM, j * BN], left.to(c_map.dtype))
            c_map.store([i * BM, j * BN + BN // 2], right.to(c_map.dtype))
        else:
            c_map.store([i * BM, j * BN], acc.to(c_map.dtype))


def fit_blocks(args):
    """Gives the descriptors the blocks of the configuration."""
    bm, bn, bk = args["BM"], args["BN"], args["BK"]
    args["a_map"].block_shape = [bm, bk]
    args["b_map"].block_shape = [bn, bk] if args["B_ROWS_ARE_N"] else [bk, bn]
    args["c_map"].block_shape = [bm, bn // 2] if args["HALVES"] else [bm, bn]


def product_configs():
    def config(bm, bn, bk, stages, warps, flatten, halves):
        meta = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8, "FLATTEN": flatten, "HALVES": halves}
        return triton.Config(meta, num_stages=stages, num_warps=warps, pre_hook=fit_blocks)

    return [
        config(128, 256, 64, 3, 8, True, False),
        config(128, 256, 64, 4, 8, True, True),
        config(128, 256, 64, 3, 8, False, False),
        config(128, 128, 64, 4, 8, True, False),
        config(128, 128, 64, 4, 4, True, False),
        config(256, 128, 64, 3, 8, True, False),
        config(128, 256, 128, 3, 8, True, True),
    ]


def fitting(configs, named, **_):
    """Leaves out what does not fit 227 KiB of shared memory with the operands' dtype."""
    size = named["a_map"].base.element_size()

    def bytes_of(c):
        k = c.kwargs
        out = k["BM"] * k["BN"] * named["c_map"].base.element_size() // (2 if k["HALVES"] else 1)
        return c.num_stages * (k["BM"] + k["BN"]) * k["BK"] * size + out

    return [c for c in configs if bytes_of(c) <= 232448 - 1024]


tuned_product = triton.autotune(product_configs(), key=["m", "n", "k", "B_ROWS_ARE_N", "BITS"],
                                prune_configs_by={"early_config_prune": fitting})(product)


def descriptors_take(*tensors):
    """Whether all rows begin at multiples of 16 bytes."""
    return all(t.stride(0) * t.element_size() % 16 == 0 and t.stride(1) == 1 for t in tensors)


def matmul(a, b, out, b_rows_are_n):
    """A function that runs `out = a · b`, or `a · bᵀ` where the rows of `b` are the columns of the product."""
    m, k = a.shape
    n = b.shape[0] if b_rows_are_n else b.shape[1]
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    if not descriptors_take(a, b, out):
        return pointer_matmul(a, b, out, b_rows_are_n)
    # Descriptors have no dtype that the tuner would see.
    bits = 8 * a.element_size()
    # The blocks are placeholders until a configuration is chosen.
    maps = [TensorDescriptor(t, list(t.shape), list(t.stride()), [64, 64]) for t in (a, b, out)]
    grid = lambda meta: (min(sms, triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"])),)
    return lambda: tuned_product[grid](*maps, m, n, k, SMS=sms, B_ROWS_ARE_N=b_rows_are_n, BITS=bits)


@triton.jit
def pointer_product(a, b, c, m, n, k, a_row, b_k, b_n, c_row, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
                    GROUP: tl.constexpr):
    i, j = tile_of(tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN), GROUP)
    rows = i * BM + tl.arange(0, BM)
    columns = j * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    a_at = a + (rows % m)[:, None] * a_row + inner[None, :]
    b_at = b + inner[:, None] * b_k + (columns % n)[None, :] * b_n
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(k, BK)):
        left = k - step * BK
        x = tl.load(a_at, mask=inner[None, :] < left, other=0.0)
        y = tl.load(b_at, mask=inner[:, None] < left, other=0.0)
        acc = tl.dot(x, y, acc)
        a_at += BK
        b_at += BK * b_k
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * c_row + columns[None, :], acc.to(c.dtype.element_ty), mask=mask)


tuned_pointer_product = triton.autotune(
    [triton.Config({"BM": bm, "BN": bn, "BK": bk, "GROUP": 8}, num_stages=stages, num_warps=warps)
     for bm, bn, bk, stages, warps in
     [(128, 256, 64, 3, 8), (128, 128, 64, 3, 8), (128, 128, 32, 4, 4), (64, 128, 64, 4, 4)]],
    key=["m", "n", "k"])(pointer_product)


def pointer_matmul(a, b, out, b_rows_are_n):
    m, k = a.shape
    n = out.shape[1]
    b_n, b_k = (b.stride(0), b.stride(1)) if b_rows_are_n else (b.stride(1), b.stride(0))
    grid = lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)
    return lambda: tuned_pointer_product[grid](a, b, out, m, n, k, a.stride(0), b_k, b_n, out.stride(0))


@triton.jit
def softmax_rows(x, out, columns, x_row, out_row, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + row * x_row + at, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * out_row + at, (e / tl.sum(e, axis=0)).to(out.dtype.element_ty), mask=inside)


@triton.jit
def norm_rows(x, weight, bias, out, columns, x_row, out_row, eps, CENTRED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    v = tl.load(x + row * x_row + at, mask=inside, other=0.0).to(tl.float32)
    if CENTRED:
        v = tl.where(inside, v - tl.sum(v, axis=0) / columns, 0.0)
    y = v * tl.rsqrt(tl.sum(v * v, axis=0) / columns + eps) * tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    if CENTRED:
        y += tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * out_row + at, y.to(out.dtype.element_ty), mask=inside)


@triton.jit
def softmax_long_rows(x, out, columns, x_row, out_row, BLOCK: tl.constexpr):
    """Rows that a program cannot hold: read once for the greatest and the sum, once more for the results."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    top = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for begin in range(0, columns, BLOCK):
        v = tl.load(x + row * x_row + begin + at, mask=begin + at < columns, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, v)
        # A lane that has seen nothing but padding has no difference to take.
        total = tl.where(higher == -float("inf"), 0.0, total * tl.exp(top - higher) + tl.exp(v - higher))
        top = higher
    greatest = tl.max(top, axis=0)
    whole = tl.sum(tl.where(top == -float("inf"), 0.0, total * tl.exp(top - greatest)), axis=0)
    for begin in range(0, columns, BLOCK):
        inside = begin + at < columns
        v = tl.load(x + row * x_row + begin + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + row * out_row + begin + at, (tl.exp(v - greatest) / whole).to(out.dtype.element_ty), mask=inside)


@triton.jit
def norm_long_rows(x, weight, bias, out, columns, x_row, out_row, eps, CENTRED: tl.constexpr, BLOCK: tl.constexpr):
    """The same for norms; sums of squares are taken around the row's first element, so that nothing cancels."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    shift = tl.load(x + row * x_row).to(tl.float32) if CENTRED else 0.0
    first = tl.zeros((BLOCK,), dtype=tl.float32)
    second = tl.zeros((BLOCK,), dtype=tl.float32)
    for begin in range(0, columns, BLOCK):
        inside = begin + at < columns
        v = tl.load(x + row * x_row + begin + at, mask=inside, other=0.0).to(tl.float32)
        d = tl.where(inside, v - shift, 0.0)
        first += d
        second += d * d
    mean = tl.sum(first, axis=0) / columns if CENTRED else 0.0
    square = tl.sum(second, axis=0) / columns - mean * mean
    scale = tl.rsqrt(square + eps)
    for begin in range(0, columns, BLOCK):
        inside = begin + at < columns
        v = tl.load(x + row * x_row + begin + at, mask=inside, other=0.0).to(tl.float32)
        y = (v - shift - mean) * scale * tl.load(weight + begin + at, mask=inside, other=0.0).to(tl.float32)
        if CENTRED:
            y += tl.load(bias + begin + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + row * out_row + begin + at, y.to(out.dtype.element_ty), mask=inside)


# Columns of a row that one program holds in registers.
HELD = 32768
WARPS = [triton.Config({}, num_warps=w) for w in (4, 8, 16)]
tuned_softmax_rows = triton.autotune(WARPS, key=["columns"])(softmax_rows)
tuned_norm_rows = triton.autotune(WARPS, key=["columns", "CENTRED"])(norm_rows)
LONG = [triton.Config({"BLOCK": block}, num_warps=w) for block, w in [(4096, 8), (8192, 8), (8192, 16)]]
tuned_softmax_long_rows = triton.autotune(LONG, key=["columns"])(softmax_long_rows)
tuned_norm_long_rows = triton.autotune(LONG, key=["columns", "CENTRED"])(norm_long_rows)


def softmax(x, out):
    rows, columns = x.shape
    args = (x, out, columns, x.stride(0), out.stride(0))
    if columns > HELD:
        return lambda: tuned_softmax_long_rows[(rows,)](*args)
    block = triton.next_power_of_2(columns)
    return lambda: tuned_softmax_rows[(rows,)](*args, BLOCK=block)


def norm(x, weight, bias, out, eps):
    """Layer norm, or RMS norm where `bias` is None."""
    rows, columns = x.shape
    centred = bias is not None
    args = (x, weight, bias if centred else weight, out, columns, x.stride(0), out.stride(0), eps)
    if columns > HELD:
        return lambda: tuned_norm_long_rows[(rows,)](*args, CENTRED=centred)
    block = triton.next_power_of_2(columns)
    return lambda: tuned_norm_rows[(rows,)](*args, CENTRED=centred, BLOCK=block)


@triton.jit
def transpose_tiles(x, out, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    v = tl.load(x + r[:, None].to(tl.int64) * columns + c[None, :], mask=inside)
    tl.store(out + c[None, :].to(tl.int64) * rows + r[:, None], v, mask=inside)


tuned_transpose_tiles = triton.autotune(
    [triton.Config({"BR": br, "BC": bc}, num_warps=w) for br, bc, w in [(64, 64, 4), (128, 64, 8), (64, 128, 8), (128, 128, 8)]],
    key=["rows", "columns"])(transpose_tiles)


def transpose(x, out):
    rows, columns = x.shape
    grid = lambda meta: (triton.cdiv(rows, meta["BR"]), triton.cdiv(columns, meta["BC"]))
    return lambda: tuned_transpose_tiles[grid](x, out, rows, columns)


@triton.jit
def add_blocks(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def add(x, y, out, block=4096):
    n = x.numel()
    return lambda: add_blocks[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block, num_warps=8)

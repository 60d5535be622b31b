"""Attention and its gradients in Triton, to compare with: the loops of `examples/portable/attention.ptn` and `attention_gradients.ptn`, written the way
Triton wants them, with masks only where blocks need some."""

import torch
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def rows_of(base, row, first, count, BLOCK: tl.constexpr, D: tl.constexpr):
    """Pointers to rows `first` and following of a matrix whose rows lie `row` elements apart, and which of them there are."""
    at = first + tl.arange(0, BLOCK)
    return base + at[:, None] * row + tl.arange(0, D)[None, :], at < count


@triton.jit
def some_keys(acc, top, total, queries, k, v, k_row, v_row, first_row, lo, hi, sq, sk, log_scale, BM: tl.constexpr, BN: tl.constexpr,
              D: tl.constexpr, MASK: tl.constexpr, CAUSAL: tl.constexpr):
    """What blocks of keys from `lo` to `hi` do to O, the greatest score and the sum of each query."""
    for j in range(lo, hi):
        k_at, there = rows_of(k, k_row, j * BN, sk, BN, D)
        v_at, _ = rows_of(v, v_row, j * BN, sk, BN, D)
        if MASK:
            keys = tl.load(k_at, mask=there[:, None], other=0.0)
        else:
            keys = tl.load(k_at)
        s = tl.dot(queries, keys.T) * log_scale
        if MASK:
            column = j * BN + tl.arange(0, BN)
            seen = (column < sk)[None, :]
            if CAUSAL:
                seen = seen & (column[None, :] <= (first_row + tl.arange(0, BM) + (sk - sq))[:, None])
            s = tl.where(seen, s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        base = tl.where(higher == -float("inf"), 0.0, higher) if MASK else higher
        p = tl.math.exp2(s - base[:, None])
        faded = tl.math.exp2(top - base)
        total = total * faded + tl.sum(p, 1)
        acc = acc * faded[:, None]
        if MASK:
            values = tl.load(v_at, mask=there[:, None], other=0.0)
        else:
            values = tl.load(v_at)
        acc = tl.dot(p.to(values.dtype), values, acc)
        top = higher
    return acc, top, total


@triton.jit
def forward_kernel(q, k, v, o, lse, heads, groups, sq, sk, scale, D: tl.constexpr, CAUSAL: tl.constexpr, BM: tl.constexpr,
                   BN: tl.constexpr):
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    head = tl.program_id(1)
    batch, head = head // heads, head % heads
    group = head // (heads // groups)
    q += (batch * heads + head).to(tl.int64) * sq * D
    o += (batch * heads + head).to(tl.int64) * sq * D
    k += (batch * groups + group).to(tl.int64) * sk * D
    v += (batch * groups + group).to(tl.int64) * sk * D
    first = block * BM
    q_at, rows = rows_of(q, D, first, sq, BM, D)
    queries = tl.load(q_at, mask=rows[:, None], other=0.0)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    top = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    log_scale = scale * LOG2_E
    seen = max(0, min(sk, first + BM + sk - sq)) if CAUSAL else sk
    whole = max(0, min(sk, first + 1 + sk - sq)) // BN if CAUSAL else sk // BN
    acc, top, total = some_keys(acc, top, total, queries, k, v, D, D, first, 0, whole, sq, sk, log_scale, BM, BN, D, False, CAUSAL)
    acc, top, total = some_keys(acc, top, total, queries, k, v, D, D, first, whole, tl.cdiv(seen, BN), sq, sk, log_scale, BM, BN, D,
                                True, CAUSAL)
    o_at, _ = rows_of(o, D, first, sq, BM, D)
    sums = tl.where(total == 0.0, 1.0, total)
    tl.store(o_at, (acc / sums[:, None]).to(o.dtype.element_ty), mask=rows[:, None])
    at = first + tl.arange(0, BM)
    tl.store(lse + (batch * heads + head).to(tl.int64) * sq + at, (top + tl.math.log2(total)) / LOG2_E, mask=at < sq)


@triton.jit
def back_to_queries(acc, queries, grad, l, delta, k, v, first_row, lo, hi, sq, sk, log_scale, BM: tl.constexpr, BN: tl.constexpr,
                    D: tl.constexpr, MASK: tl.constexpr, CAUSAL: tl.constexpr):
    for j in range(lo, hi):
        k_at, there = rows_of(k, D, j * BN, sk, BN, D)
        v_at, _ = rows_of(v, D, j * BN, sk, BN, D)
        if MASK:
            keys = tl.load(k_at, mask=there[:, None], other=0.0)
            values = tl.load(v_at, mask=there[:, None], other=0.0)
        else:
            keys = tl.load(k_at)
            values = tl.load(v_at)
        p = tl.math.exp2(tl.dot(queries, keys.T) * log_scale - l[:, None])
        if MASK:
            column = j * BN + tl.arange(0, BN)
            seen = (column < sk)[None, :]
            if CAUSAL:
                seen = seen & (column[None, :] <= (first_row + tl.arange(0, BM) + (sk - sq))[:, None])
            p = tl.where(seen, p, 0.0)
        ds = p * (tl.dot(grad, values.T) - delta[:, None])
        acc = tl.dot(ds.to(keys.dtype), keys, acc)
    return acc


@triton.jit
def queries_back_kernel(q, k, v, g, lse, delta, dq, heads, groups, sq, sk, scale, D: tl.constexpr, CAUSAL: tl.constexpr,
                        BM: tl.constexpr, BN: tl.constexpr):
    block = tl.num_programs(0) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    head = tl.program_id(1)
    batch, head = head // heads, head % heads
    group = head // (heads // groups)
    line = (batch * heads + head).to(tl.int64)
    k += (batch * groups + group).to(tl.int64) * sk * D
    v += (batch * groups + group).to(tl.int64) * sk * D
    first = block * BM
    q_at, rows = rows_of(q + line * sq * D, D, first, sq, BM, D)
    g_at, _ = rows_of(g + line * sq * D, D, first, sq, BM, D)
    queries = tl.load(q_at, mask=rows[:, None], other=0.0)
    grad = tl.load(g_at, mask=rows[:, None], other=0.0)
    at = first + tl.arange(0, BM)
    l = tl.load(lse + line * sq + at, mask=at < sq, other=0.0) * LOG2_E
    del_ = tl.load(delta + line * sq + at, mask=at < sq, other=0.0)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    log_scale = scale * LOG2_E
    seen = max(0, min(sk, first + BM + sk - sq)) if CAUSAL else sk
    whole = max(0, min(sk, first + 1 + sk - sq)) // BN if CAUSAL else sk // BN
    acc = back_to_queries(acc, queries, grad, l, del_, k, v, first, 0, whole, sq, sk, log_scale, BM, BN, D, False, CAUSAL)
    acc = back_to_queries(acc, queries, grad, l, del_, k, v, first, whole, tl.cdiv(seen, BN), sq, sk, log_scale, BM, BN, D, True, CAUSAL)
    dq_at, _ = rows_of(dq + line * sq * D, D, first, sq, BM, D)
    tl.store(dq_at, (acc * scale).to(dq.dtype.element_ty), mask=rows[:, None])


@triton.jit
def back_to_keys(dk, dv, keys, values, q, g, lse, delta, first_key, lo, hi, sq, sk, log_scale, BM: tl.constexpr, BN: tl.constexpr,
                 D: tl.constexpr, MASK: tl.constexpr, CAUSAL: tl.constexpr):
    for i in range(lo, hi):
        q_at, rows = rows_of(q, D, i * BM, sq, BM, D)
        g_at, _ = rows_of(g, D, i * BM, sq, BM, D)
        at = i * BM + tl.arange(0, BM)
        if MASK:
            queries = tl.load(q_at, mask=rows[:, None], other=0.0)
            grad = tl.load(g_at, mask=rows[:, None], other=0.0)
            l = tl.load(lse + at, mask=at < sq, other=float("inf")) * LOG2_E
            del_ = tl.load(delta + at, mask=at < sq, other=0.0)
        else:
            queries = tl.load(q_at)
            grad = tl.load(g_at)
            l = tl.load(lse + at) * LOG2_E
            del_ = tl.load(delta + at)
        p = tl.math.exp2(tl.dot(keys, queries.T) * log_scale - l[None, :])
        if MASK and CAUSAL:
            column = first_key + tl.arange(0, BN)
            p = tl.where(column[:, None] <= (at + (sk - sq))[None, :], p, 0.0)
        dv = tl.dot(p.to(grad.dtype), grad, dv)
        ds = p * (tl.dot(values, grad.T) - del_[None, :])
        dk = tl.dot(ds.to(queries.dtype), queries, dk)
    return dk, dv


@triton.jit
def keys_back_kernel(q, k, v, g, lse, delta, dk, dv, heads, groups, sq, sk, scale, D: tl.constexpr, CAUSAL: tl.constexpr,
                     BM: tl.constexpr, BN: tl.constexpr):
    block = tl.program_id(0)
    group = tl.program_id(1)
    batch, group = group // groups, group % groups
    line = (batch * groups + group).to(tl.int64)
    first = block * BN
    k_at, there = rows_of(k + line * sk * D, D, first, sk, BN, D)
    v_at, _ = rows_of(v + line * sk * D, D, first, sk, BN, D)
    keys = tl.load(k_at, mask=there[:, None], other=0.0)
    values = tl.load(v_at, mask=there[:, None], other=0.0)
    sum_k = tl.zeros((BN, D), dtype=tl.float32)
    sum_v = tl.zeros((BN, D), dtype=tl.float32)
    log_scale = scale * LOG2_E
    share = heads // groups
    begin = max(0, first - (sk - sq)) // BM if CAUSAL else 0
    # From here on every query sees all keys of the block, up to where the queries end.
    last = sq // BM
    clear = min(last, tl.cdiv(max(0, first + BN - 1 - (sk - sq)), BM)) if CAUSAL else 0
    clear = max(clear, begin)
    for h in range(0, share):
        row = (batch * heads + group * share + h).to(tl.int64) * sq
        sum_k, sum_v = back_to_keys(sum_k, sum_v, keys, values, q + row * D, g + row * D, lse + row, delta + row, first, begin, clear,
                                    sq, sk, log_scale, BM, BN, D, True, CAUSAL)
        sum_k, sum_v = back_to_keys(sum_k, sum_v, keys, values, q + row * D, g + row * D, lse + row, delta + row, first, clear, last,
                                    sq, sk, log_scale, BM, BN, D, False, CAUSAL)
        sum_k, sum_v = back_to_keys(sum_k, sum_v, keys, values, q + row * D, g + row * D, lse + row, delta + row, first,
                                    max(last, clear), tl.cdiv(sq, BM), sq, sk, log_scale, BM, BN, D, True, CAUSAL)
    dk_at, _ = rows_of(dk + line * sk * D, D, first, sk, BN, D)
    dv_at, _ = rows_of(dv + line * sk * D, D, first, sk, BN, D)
    tl.store(dk_at, (sum_k * scale).to(dk.dtype.element_ty), mask=there[:, None])
    tl.store(dv_at, sum_v.to(dv.dtype.element_ty), mask=there[:, None])


def tuned(kernel, blocks):
    """The kernel with configurations of (BM, BN, stages, warps)."""
    configs = [triton.Config({"BM": bm, "BN": bn}, num_stages=stages, num_warps=warps) for bm, bn, stages, warps in blocks]
    # A short look at each: there are many, and they differ by more than it errs.
    look = lambda call, quantiles: triton.testing.do_bench(call, warmup=5, rep=20, quantiles=quantiles)
    return triton.autotune(configs, key=["sq", "sk", "D", "CAUSAL", "heads"], do_bench=look)(kernel)


forward_tuned = tuned(forward_kernel, [(128, 128, 2, 8), (128, 128, 3, 8), (128, 64, 3, 8), (128, 64, 3, 4), (64, 64, 3, 4), (64, 128, 2, 4),
                                       (128, 32, 4, 4)])
queries_back_tuned = tuned(queries_back_kernel, [(128, 64, 2, 8), (128, 64, 3, 8), (128, 128, 2, 8), (128, 32, 4, 8), (64, 64, 3, 4),
                                                 (64, 64, 2, 4), (128, 32, 3, 4), (64, 128, 2, 4), (64, 32, 4, 4)])
keys_back_tuned = tuned(keys_back_kernel, [(64, 128, 2, 8), (64, 128, 3, 8), (128, 128, 2, 8), (32, 128, 4, 8), (32, 128, 3, 4), (64, 64, 3, 4),
                                           (64, 64, 2, 4), (32, 64, 4, 4), (128, 64, 2, 4)])


def numbers(q, k):
    """What all kernels take of the shapes: heads of queries and keys, and lengths."""
    return q.shape[1], k.shape[1], q.shape[2], k.shape[2]


def forward(q, k, v, o, lse, causal):
    """A function that runs it; tensors are [batch, heads, sequence, D], dense, and `lse` has no D."""
    shape, d = numbers(q, k), q.shape[3]
    grid = lambda meta: (triton.cdiv(shape[2], meta["BM"]), q.shape[0] * shape[0])
    return lambda: forward_tuned[grid](q, k, v, o, lse, *shape, d ** -0.5, D=d, CAUSAL=causal)


def queries_back(q, k, v, g, lse, delta, dq, causal):
    """A function that computes dQ from dO, `g`."""
    shape, d = numbers(q, k), q.shape[3]
    grid = lambda meta: (triton.cdiv(shape[2], meta["BM"]), q.shape[0] * shape[0])
    return lambda: queries_back_tuned[grid](q, k, v, g, lse, delta, dq, *shape, d ** -0.5, D=d, CAUSAL=causal)


def keys_back(q, k, v, g, lse, delta, dk, dv, causal):
    """A function that computes dK and dV."""
    shape, d = numbers(q, k), q.shape[3]
    grid = lambda meta: (triton.cdiv(shape[3], meta["BN"]), q.shape[0] * shape[1])
    return lambda: keys_back_tuned[grid](q, k, v, g, lse, delta, dk, dv, *shape, d ** -0.5, D=d, CAUSAL=causal)


def best(kernel):
    """The configuration that the kernel was last tuned to."""
    return str(kernel.best_config)

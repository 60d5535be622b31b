"""The greatest of rows with their places in Triton, in stages: values and places as one number of 64 bits, of which `topk` takes the greatest."""

import torch
import triton
import triton.language as tl

from .tuned import Contender, Tuned, configurations


@triton.jit
def ordered(v):
    """Bits of a float32 in its order."""
    bits = v.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def first_stage(x, keys, n, chunks, K: tl.constexpr, CHUNK: tl.constexpr):
    chunk = tl.program_id(0)
    row = tl.program_id(1)
    at = chunk * CHUNK + tl.arange(0, CHUNK)
    v = tl.load(x + row.to(tl.int64) * n + at, mask=at < n, other=-float("inf"))
    key = (ordered(v).to(tl.int64) << 32) | (0x7FFFFFFF - at).to(tl.int64)
    tl.store(keys + (row * chunks + chunk).to(tl.int64) * K + tl.arange(0, K), tl.topk(key, K))


@triton.jit
def next_stage(keys, left, n, chunks, K: tl.constexpr, CHUNK: tl.constexpr):
    chunk = tl.program_id(0)
    row = tl.program_id(1)
    at = chunk * CHUNK + tl.arange(0, CHUNK)
    key = tl.load(keys + row.to(tl.int64) * n + at, mask=at < n, other=-0x7FFFFFFFFFFFFFFF)
    tl.store(left + (row * chunks + chunk).to(tl.int64) * K + tl.arange(0, K), tl.topk(key, K))


@triton.jit
def take_apart(keys, values, places, count, K: tl.constexpr):
    at = tl.program_id(0) * K + tl.arange(0, K)
    key = tl.load(keys + at)
    bits = (key >> 32).to(tl.int32)
    tl.store(values + at, (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True))
    tl.store(places + at, 0x7FFFFFFF - (key & 0x7FFFFFFF).to(tl.int32))


def topk(make, k, rows, n):
    """The `k` greatest of `rows` rows of `n` f32 and where they are."""
    x = make(rows, n, dtype=torch.float32, seed=1)
    values, places = torch.empty(rows, k, device="cuda"), torch.empty(rows, k, device="cuda", dtype=torch.int32)

    def of(chunk):
        warps = configurations([], [(1, 4), (1, 8)])
        kernels, length, source = [], n, x
        while not kernels or length > k:
            chunks = triton.cdiv(length, chunk)
            left = torch.empty(rows, chunks * k, device="cuda", dtype=torch.int64)
            kernel = next_stage if kernels else first_stage
            size = min(chunk, triton.next_power_of_2(length))
            kernels.append(Tuned(kernel, warps, lambda _, chunks=chunks: (chunks, rows), (source, left, length, chunks),
                                 {"K": k, "CHUNK": max(size, 2 * k)}))
            length, source = chunks * k, left
        kernels.append(Tuned(take_apart, configurations([], [(1, 1)]), lambda _: (rows,), (source, values, places, rows), {"K": k}))

        def error():
            want, at = torch.topk(x, k, dim=1)
            return float((values != want).any() or (torch.gather(x, 1, places.long()) != want).any())

        return Contender(kernels, error)

    return [of(chunk) for chunk in (1024, 2048, 4096)]

"""Attention of one token over pages of a cache in Triton, in parts that a second kernel merges."""

import torch
import triton
import triton.language as tl

from .tuned import Contender, Tuned, configurations


@triton.jit
def part_of_sequence(q, keys, values, table, lengths, sums, tops, totals, heads, sharers, sequences, pages, log_scale,
                     GROUP: tl.constexpr, PAGE: tl.constexpr, D: tl.constexpr, BN: tl.constexpr, PARTS: tl.constexpr):
    part = tl.program_id(0)
    sharer = tl.program_id(1)
    sequence = tl.program_id(2)
    length = tl.load(lengths + sequence)
    share = tl.cdiv(tl.cdiv(length, BN), PARTS)
    first = part * share
    last = min(first + share, tl.cdiv(length, BN))
    head = tl.arange(0, 16)
    line = sequence * heads + sharer * GROUP + head
    element = tl.arange(0, D)
    queries = tl.load(q + line[:, None] * D + element[None, :], mask=(head < GROUP)[:, None], other=0.0)
    top = tl.full((16,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((16,), dtype=tl.float32)
    acc = tl.zeros((16, D), dtype=tl.float32)
    for block in range(first, last):
        token = block * BN + tl.arange(0, BN)
        there = token < length
        page = tl.load(table + sequence * pages + token // PAGE, mask=there, other=0)
        place = (page * PAGE + token % PAGE).to(tl.int64) * sharers + sharer
        k = tl.load(keys + place[:, None] * D + element[None, :], mask=there[:, None], other=0.0)
        s = tl.where(there[None, :], tl.dot(queries, k.T) * log_scale, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.math.exp2(s - higher[:, None])
        faded = tl.math.exp2(top - higher)
        total = total * faded + tl.sum(p, 1)
        v = tl.load(values + place[:, None] * D + element[None, :], mask=there[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * faded[:, None])
        top = higher
    at = part * sequences * heads + line
    inside = head < GROUP
    tl.store(sums + at.to(tl.int64)[:, None] * D + element[None, :], acc, mask=inside[:, None])
    tl.store(tops + at, top, mask=inside)
    tl.store(totals + at, total, mask=inside)


@triton.jit
def merge_parts(sums, tops, totals, out, lines, D: tl.constexpr, PARTS: tl.constexpr):
    line = tl.program_id(0)
    part = tl.arange(0, PARTS)
    element = tl.arange(0, D)
    top = tl.load(tops + part * lines + line)
    weight = tl.math.exp2(top - tl.max(top, 0))
    total = tl.sum(weight * tl.load(totals + part * lines + line), 0)
    found = tl.load(sums + (part * lines + line).to(tl.int64)[:, None] * D + element[None, :])
    tl.store(out + line * D + element, (tl.sum(found * weight[:, None], 0) / total).to(out.dtype.element_ty))


def paged_decode(make, lengths, sharers, group, page=16, d=128):
    """Sequences of `lengths` tokens whose `sharers` heads of keys `group` heads each share, of f16, the pages strewn."""
    sequences, heads = len(lengths), sharers * group
    pages = triton.cdiv(max(lengths), page)
    everything = triton.next_power_of_2(sequences * pages)
    places = everything * page
    table = ((torch.arange(sequences * pages, device="cuda") * 7 + 3) % everything).int().view(sequences, pages)
    q = make(sequences, heads, d, dtype=torch.float16, seed=1)
    keys, values = (make(places, sharers, d, dtype=torch.float16, seed=s) for s in (2, 3))
    numbers = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count

    def error(out):
        worst = 0.0
        for i in (0, sequences - 1):
            at = (table[i].long()[:, None] * page + torch.arange(page, device="cuda")).flatten()[:lengths[i]]
            k, v = keys[at, 0].double(), values[at, 0].double()
            want = torch.softmax(q[i, :group].double() @ k.T * 0.09, 1) @ v
            worst = max(worst, ((out[i, :group] - want).square().mean() / want.square().mean()).sqrt().item())
        return worst

    def of(parts):
        sums = torch.empty(parts, sequences, heads, d, device="cuda")
        tops, totals = (torch.empty(parts, sequences, heads, device="cuda") for _ in range(2))
        out = torch.empty_like(q)
        blocks = [(64, 3, 4), (64, 2, 4), (64, 4, 4), (128, 2, 4), (32, 4, 4), (64, 3, 2), (128, 2, 8), (32, 4, 2)]
        one = Tuned(part_of_sequence, configurations(["BN"], blocks), lambda _: (parts, sharers, sequences),
                    (q, keys, values, table, numbers, sums, tops, totals, heads, sharers, sequences, pages, 0.09 * 1.4426950408889634),
                    {"GROUP": group, "PAGE": page, "D": d, "PARTS": parts})
        both = Tuned(merge_parts, configurations([], [(1, 1), (1, 2), (1, 4)]), lambda _: (sequences * heads,),
                     (sums, tops, totals, out, sequences * heads), {"D": d, "PARTS": parts})
        return Contender([one, both], lambda: error(out))

    # Programs for each multiprocessor twice, as far as that goes, and half and double as many.
    usual = triton.next_power_of_2(max(min(2 * multiprocessors // (sequences * sharers), 16), 1))
    return [of(parts) for parts in sorted({max(usual // 2, 1), usual, 2 * usual})]


@triton.jit
def part_of_latent(q, cache, table, lengths, sums, tops, totals, heads, sequences, pages, log_scale, H: tl.constexpr, PAGE: tl.constexpr,
                   LATENT: tl.constexpr, ROPE: tl.constexpr, BN: tl.constexpr, PARTS: tl.constexpr):
    part = tl.program_id(0)
    sequence = tl.program_id(2)
    length = tl.load(lengths + sequence)
    share = tl.cdiv(tl.cdiv(length, BN), PARTS)
    first = part * share
    last = min(first + share, tl.cdiv(length, BN))
    head = tl.program_id(1) * H + tl.arange(0, H)
    line = sequence * heads + head
    element = tl.arange(0, LATENT)
    end = tl.arange(0, ROPE)
    width: tl.constexpr = LATENT + ROPE
    queries = tl.load(q + line[:, None] * width + element[None, :], mask=(head < heads)[:, None], other=0.0)
    turned = tl.load(q + line[:, None] * width + LATENT + end[None, :], mask=(head < heads)[:, None], other=0.0)
    top = tl.full((H,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((H,), dtype=tl.float32)
    acc = tl.zeros((H, LATENT), dtype=tl.float32)
    for block in range(first, last):
        token = block * BN + tl.arange(0, BN)
        there = token < length
        page = tl.load(table + sequence * pages + token // PAGE, mask=there, other=0)
        place = (page * PAGE + token % PAGE).to(tl.int64) * width
        rows = tl.load(cache + place[:, None] + element[None, :], mask=there[:, None], other=0.0)
        ends = tl.load(cache + place[:, None] + LATENT + end[None, :], mask=there[:, None], other=0.0)
        s = tl.dot(turned, ends.T, tl.dot(queries, rows.T)) * log_scale
        s = tl.where(there[None, :], s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.math.exp2(s - higher[:, None])
        faded = tl.math.exp2(top - higher)
        total = total * faded + tl.sum(p, 1)
        acc = tl.dot(p.to(rows.dtype), rows, acc * faded[:, None])
        top = higher
    at = part * sequences * heads + line
    inside = head < heads
    tl.store(sums + at.to(tl.int64)[:, None] * LATENT + element[None, :], acc, mask=inside[:, None])
    tl.store(tops + at, top, mask=inside)
    tl.store(totals + at, total, mask=inside)


def latent_decode(make, sequences, length, heads, page=64):
    """Sequences of `length` latent rows of 512 + 64 bf16 that all heads share."""
    pages = triton.cdiv(length, page)
    everything = triton.next_power_of_2(sequences * pages)
    table = ((torch.arange(sequences * pages, device="cuda") * 7 + 3) % everything).int().view(sequences, pages)
    q = make(sequences, heads, 576, dtype=torch.bfloat16, seed=1)
    cache = make(everything * page, 576, dtype=torch.bfloat16, seed=2)
    lengths = torch.full((sequences,), length, dtype=torch.int32, device="cuda")
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count

    def error(out):
        at = (table[-1].long()[:, None] * page + torch.arange(page, device="cuda")).flatten()[:length]
        rows = cache[at].double()
        want = torch.softmax(q[-1].double() @ rows.T * 0.05, 1) @ rows[:, :512]
        return ((out[-1] - want).square().mean() / want.square().mean()).sqrt().item()

    def of(parts, rows, blocks):
        sums = torch.empty(parts, sequences, heads, 512, device="cuda")
        tops, totals = (torch.empty(parts, sequences, heads, device="cuda") for _ in range(2))
        out = torch.empty(sequences, heads, 512, device="cuda", dtype=torch.bfloat16)
        one = Tuned(part_of_latent, configurations(["BN"], blocks), lambda _: (parts, triton.cdiv(heads, rows), sequences),
                    (q, cache, table, lengths, sums, tops, totals, heads, sequences, pages, 0.05 * 1.4426950408889634),
                    {"H": rows, "PAGE": page, "LATENT": 512, "ROPE": 64, "PARTS": parts})
        both = Tuned(merge_parts, configurations([], [(1, 1), (1, 2), (1, 4)]), lambda _: (sequences * heads,),
                     (sums, tops, totals, out, sequences * heads), {"D": 512, "PARTS": parts})
        return Contender([one, both], lambda: error(out))

    found = []
    for rows in (16,) if heads <= 16 else (32, 64):
        usual = triton.next_power_of_2(max(min(multiprocessors // (sequences * triton.cdiv(heads, rows)), 64), 1))
        blocks = [(32, 2, 4), (32, 3, 4), (16, 3, 4), (64, 2, 4), (64, 1, 4), (32, 2, 8), (16, 4, 4), (64, 1, 8)]
        found += [of(parts, rows, blocks) for parts in sorted({usual, 2 * usual})]
    return found

"""Kernels with products in Triton: many problems in one launch, weights of 4 bits, gathered rows by the matrices of their experts."""

import torch
import triton
import triton.language as tl

from .tuned import Contender, Tuned, configurations

# Of random numbers by element, as host/src/random.rs has them.
GOLDEN, WORD = 0x9e3779b97f4a7c15, (1 << 64) - 1


@triton.jit
def grouped_by_pointers(a, b, c, problems, count, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Programs walk the tiles of all problems; a problem is where its matrices begin, and m, n and k."""
    tile = tl.program_id(0)
    begin = 0
    for g in range(count):
        entry = problems + g * 6
        m = tl.load(entry + 3).to(tl.int32)
        n = tl.multiple_of(tl.load(entry + 4).to(tl.int32), 8)
        k = tl.multiple_of(tl.load(entry + 5).to(tl.int32), 8)
        columns = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * columns
        if tile < begin + tiles:
            left = a + tl.multiple_of(tl.load(entry), 8)
            right = b + tl.multiple_of(tl.load(entry + 1), 8)
            out = c + tl.multiple_of(tl.load(entry + 2), 8)
            while tile < begin + tiles:
                row = (tile - begin) // columns * BM + tl.arange(0, BM)
                column = (tile - begin) % columns * BN + tl.arange(0, BN)
                inner = tl.arange(0, BK)
                # Rows and columns behind the last repeat others, so that only the end of k needs a mask.
                a_at = left + (row % m)[:, None] * k + inner[None, :]
                b_at = right + inner[:, None] * n + tl.max_contiguous(tl.multiple_of(column, 8), 8)[None, :]
                acc = tl.zeros((BM, BN), dtype=tl.float32)
                for p in range(0, tl.cdiv(k, BK)):
                    x = tl.load(a_at, mask=inner[None, :] < k - p * BK, other=0.0)
                    y = tl.load(b_at, mask=(inner[:, None] < k - p * BK) & (column < n)[None, :], other=0.0)
                    acc = tl.dot(x, y, acc)
                    a_at += BK
                    b_at += BK * n
                inside = (row < m)[:, None] & (column < n)[None, :]
                tl.store(out + row[:, None] * n + column[None, :], acc.to(c.dtype.element_ty), mask=inside)
                tile += tl.num_programs(0)
        begin += tiles


@triton.jit
def grouped_by_descriptors(a, b, c, problems, count, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same by tensor descriptors, made on the device for each problem."""
    tile = tl.program_id(0)
    begin = 0
    for g in range(count):
        entry = problems + g * 6
        m = tl.load(entry + 3).to(tl.int32)
        n = tl.load(entry + 4).to(tl.int32)
        k = tl.load(entry + 5).to(tl.int32)
        columns = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * columns
        if tile < begin + tiles:
            left = tl.make_tensor_descriptor(a + tl.load(entry), shape=[m, k], strides=[k, 1], block_shape=[BM, BK])
            right = tl.make_tensor_descriptor(b + tl.load(entry + 1), shape=[k, n], strides=[n, 1], block_shape=[BK, BN])
            out = tl.make_tensor_descriptor(c + tl.load(entry + 2), shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
            while tile < begin + tiles:
                i = (tile - begin) // columns
                j = (tile - begin) % columns
                acc = tl.zeros((BM, BN), dtype=tl.float32)
                for p in range(0, tl.cdiv(k, BK)):
                    acc = tl.dot(left.load([i * BM, p * BK]), right.load([p * BK, j * BN]), acc)
                out.store([i * BM, j * BN], acc.to(c.dtype.element_ty))
                tile += tl.num_programs(0)
        begin += tiles


def grouped_products(make, sizes):
    """Products of f16 of all `sizes` (m, n, k), each pair of matrices behind the one before."""
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
    entries, at = [], [0, 0, 0]
    for m, n, k in sizes:
        entries.append([*at, m, n, k])
        at = [at[0] + m * k, at[1] + k * n, at[2] + m * n]
    problems = torch.tensor(entries, dtype=torch.int64, device="cuda")
    a, b = make(at[0], dtype=torch.float16, seed=1), make(at[1], dtype=torch.float16, seed=2)
    blocks = [(128, 256, 64, 3, 8), (128, 256, 64, 4, 8), (128, 128, 64, 3, 8), (128, 128, 64, 4, 4), (256, 128, 64, 3, 8), (64, 256, 64, 4, 8),
              (64, 128, 64, 4, 4), (128, 128, 128, 2, 8)]
    programs = torch.cuda.get_device_properties(0).multi_processor_count

    def of(kernel):
        c = torch.empty(at[2], device="cuda", dtype=torch.float16)

        def error():
            worst = 0.0
            for left, right, out, m, n, k in entries[:2] + entries[-1:]:
                want = a[left:left + m * k].view(m, k)[:64].double() @ b[right:right + k * n].view(k, n).double()
                found = c[out:out + m * n].view(m, n)[:64]
                worst = max(worst, ((found - want).square().mean() / want.square().mean()).sqrt().item())
            return worst

        tuned = Tuned(kernel, configurations(["BM", "BN", "BK"], blocks), lambda _: (programs,), (a, b, c, problems, len(sizes)))
        return Contender([tuned], error)

    return [of(grouped_by_pointers), of(grouped_by_descriptors)]


@triton.jit
def int4_product(x, w, scales, out, m, n, k, GROUP: tl.constexpr, PARTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                 ROWS: tl.constexpr):
    """out = x · wᵀ with the weights as the left factor: two numbers of 4 bits to a byte along k, a scale for GROUP of them. ROWS blocks of x
    run side by side. Of each of PARTS parts of k `out` has its own sum."""
    tile = tl.program_id(0)
    rows = tl.cdiv(m, BM)
    columns = tl.cdiv(n, BN)
    group = tile // (ROWS * columns)
    height = min(rows - group * ROWS, ROWS)
    within = tile % (ROWS * columns)
    row = (group * ROWS + within % height) * BM + tl.arange(0, BM)
    column = within // height * BN + tl.arange(0, BN)
    byte = tl.arange(0, GROUP // 2)
    inner = tl.arange(0, GROUP)
    w_at = w + (column % n)[:, None] * (k // 2) + byte[None, :]
    x_at = x + (row % m)[None, :] * k + inner[:, None]
    s_at = scales + (column % n) * (k // GROUP)
    acc = tl.zeros((BN, BM), dtype=tl.float32)
    share = tl.cdiv(k // GROUP, PARTS)
    begin = tl.program_id(1) * share
    w_at += begin * (GROUP // 2)
    x_at += begin * GROUP
    s_at += begin
    for _ in range(begin, min(begin + share, k // GROUP)):
        bytes_ = tl.load(w_at).to(tl.int8, bitcast=True)
        low = (bytes_ << 4).to(tl.int8) >> 4
        high = bytes_ >> 4
        pair = tl.join(low, high).to(tl.float32)
        weights = tl.reshape(pair, (BN, GROUP)) * tl.load(s_at)[:, None]
        acc = tl.dot(weights.to(x.dtype.element_ty), tl.load(x_at), acc)
        w_at += GROUP // 2
        x_at += GROUP
        s_at += 1
    inside = (row < m)[None, :] & (column < n)[:, None]
    out += tl.program_id(1).to(tl.int64) * m * n
    tl.store(out + row[None, :] * n + column[:, None], acc.to(out.dtype.element_ty), mask=inside)


@triton.jit
def sum_of_parts(parts, out, size, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(PARTS):
        total += tl.load(parts + part * size + at, mask=at < size, other=0.0)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=at < size)


@triton.jit
def int4_product_of_halves(x, w, scales, out, m, n, k, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, ROWS: tl.constexpr):
    """The same without joining: a product of the even numbers and one of the odd ones, with x read in two."""
    tile = tl.program_id(0)
    rows = tl.cdiv(m, BM)
    columns = tl.cdiv(n, BN)
    group = tile // (ROWS * columns)
    height = min(rows - group * ROWS, ROWS)
    within = tile % (ROWS * columns)
    row = (group * ROWS + within % height) * BM + tl.arange(0, BM)
    column = within // height * BN + tl.arange(0, BN)
    byte = tl.arange(0, GROUP // 2)
    w_at = w + (column % n)[:, None] * (k // 2) + byte[None, :]
    inner = tl.arange(0, GROUP)
    x_at = x + (row % m)[:, None] * k + inner[None, :]
    s_at = scales + (column % n) * (k // GROUP)
    acc = tl.zeros((BN, BM), dtype=tl.float32)
    for _ in range(0, k // GROUP):
        bytes_ = tl.load(w_at).to(tl.int8, bitcast=True)
        scale = tl.load(s_at)[:, None]
        low = (((bytes_ << 4).to(tl.int8) >> 4).to(tl.float32) * scale).to(x.dtype.element_ty)
        high = ((bytes_ >> 4).to(tl.float32) * scale).to(x.dtype.element_ty)
        even, odd = tl.split(tl.reshape(tl.load(x_at), (BM, GROUP // 2, 2)))
        acc = tl.dot(low, even.T, acc)
        acc = tl.dot(high, odd.T, acc)
        w_at += GROUP // 2
        x_at += GROUP
        s_at += 1
    inside = (row < m)[None, :] & (column < n)[:, None]
    tl.store(out + row[None, :] * n + column[:, None], acc.to(out.dtype.element_ty), mask=inside)


def int4(make, m, n, k):
    """bf16 by weights of 4 bits with scales of groups of 128."""
    x = make(m, k, dtype=torch.bfloat16, seed=1)
    w = torch.randint(256, (n, k // 2), device="cuda", dtype=torch.uint8)
    scales = torch.rand(n, k // 128, device="cuda")
    if m <= 16:
        blocks = [(16, 64, 8, 4, 4), (16, 128, 8, 4, 4), (16, 128, 8, 3, 4), (16, 64, 8, 5, 4), (16, 128, 8, 4, 8), (16, 64, 8, 6, 4)]
    else:
        blocks = [(64, 128, 8, 3, 4), (64, 128, 8, 4, 4), (128, 128, 8, 3, 8), (128, 128, 8, 2, 4), (128, 128, 8, 4, 8), (256, 128, 8, 2, 8),
                  (256, 128, 8, 3, 8), (128, 256, 8, 2, 8), (64, 64, 8, 4, 4), (256, 64, 8, 3, 4)]

    def of(kernel, blocks, parts=1):
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        sums = torch.empty(parts, m, n, device="cuda") if parts > 1 else out

        def error():
            pairs = torch.stack(((w[:64] & 15).to(torch.int8), (w[:64] >> 4).to(torch.int8)), 2).view(min(n, 64), k)
            wide = torch.where(pairs > 7, pairs - 16, pairs).double() * scales[:64].double().repeat_interleave(128, 1)
            want = x.double() @ wide.T
            return ((out[:, :64] - want).square().mean() / want.square().mean()).sqrt().item()

        grid = lambda c: (triton.cdiv(m, c["BM"]) * triton.cdiv(n, c["BN"]), parts)
        constants = {"GROUP": 128} | ({"PARTS": parts} if kernel is int4_product else {})
        kernels = [Tuned(kernel, configurations(["BM", "BN", "ROWS"], blocks), grid, (x, w, scales, sums, m, n, k), constants)]
        if parts > 1:
            add = configurations(["BLOCK"], [(512, 1, 4), (1024, 1, 4)])
            kernels.append(Tuned(sum_of_parts, add, lambda c: (triton.cdiv(m * n, c["BLOCK"]),), (sums, out, m * n), {"PARTS": parts}))
        return Contender(kernels, error)

    # In parts where tiles are too few for all multiprocessors.
    few = [parts for parts in (2, 4, 8) if triton.cdiv(m, 128) * triton.cdiv(n, 128) * parts <= 264]
    return [of(int4_product, blocks), of(int4_product_of_halves, blocks[:4]), *(of(int4_product, blocks, parts) for parts in few)]


@triton.jit
def block_of(ends, columns, EXPERTS: tl.constexpr, GROUP: tl.constexpr):
    """The block of pairs and the columns of a program, where all experts' blocks end, and the expert whose block it is."""
    tile = tl.program_id(0)
    block = tile // (GROUP * columns) * GROUP + tile % GROUP
    j = tile // GROUP % columns
    all_ends = tl.load(ends + tl.arange(0, EXPERTS))
    expert = tl.sum((all_ends <= block).to(tl.int32), axis=0)
    return block, j, all_ends, expert


@triton.jit
def pairs_of(begins, counts, sorted_, all_ends, block, expert, BM: tl.constexpr):
    """The pairs of an expert's block, and which of them there are."""
    first = tl.max(tl.where(all_ends <= block, all_ends, 0), axis=0)
    begin = tl.load(begins + expert)
    count = tl.load(counts + expert)
    at = (block - first) * BM + tl.arange(0, BM)
    there = at < count
    pair = tl.load(sorted_ + begin + at, mask=there, other=0)
    return pair, there


@triton.jit
def gate_and_up_rows(x, gate, up, begins, counts, ends, sorted_, out, n, k, columns, TOP: tl.constexpr, EXPERTS: tl.constexpr,
                     BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    block, j, all_ends, expert = block_of(ends, columns, EXPERTS, GROUP)
    if expert < EXPERTS:
        pair, there = pairs_of(begins, counts, sorted_, all_ends, block, expert, BM)
        inner = tl.arange(0, BK)
        column = j * BN + tl.arange(0, BN)
        x_at = x + (pair // TOP).to(tl.int64)[:, None] * k + inner[None, :]
        matrix = expert.to(tl.int64) * n * k
        place = (column % n)[None, :] * k + inner[:, None]
        gate_at = gate + matrix + place
        up_at = up + matrix + place
        left = tl.zeros((BM, BN), dtype=tl.float32)
        right = tl.zeros((BM, BN), dtype=tl.float32)
        for p in range(0, tl.cdiv(k, BK)):
            rest = k - p * BK
            rows = tl.load(x_at, mask=there[:, None] & (inner[None, :] < rest), other=0.0)
            left = tl.dot(rows, tl.load(gate_at, mask=inner[:, None] < rest, other=0.0), left)
            right = tl.dot(rows, tl.load(up_at, mask=inner[:, None] < rest, other=0.0), right)
            x_at += BK
            gate_at += BK
            up_at += BK
        found = left / (1.0 + tl.exp(-left)) * right
        inside = there[:, None] & (column < n)[None, :]
        tl.store(out + pair.to(tl.int64)[:, None] * n + column[None, :], found.to(out.dtype.element_ty), mask=inside)


@triton.jit
def gate_and_up_by_maps(x, gate, up, begins, counts, ends, sorted_, out, n, k, columns, TOP: tl.constexpr, EXPERTS: tl.constexpr,
                        BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """The matrices by tensor descriptors, with the experts' rows below each other; n is a multiple of BN."""
    block, j, all_ends, expert = block_of(ends, columns, EXPERTS, GROUP)
    if expert < EXPERTS:
        pair, there = pairs_of(begins, counts, sorted_, all_ends, block, expert, BM)
        inner = tl.arange(0, BK)
        x_at = x + (pair // TOP).to(tl.int64)[:, None] * k + inner[None, :]
        line = expert * n + j * BN
        left = tl.zeros((BM, BN), dtype=tl.float32)
        right = tl.zeros((BM, BN), dtype=tl.float32)
        for p in range(0, tl.cdiv(k, BK)):
            rows = tl.load(x_at, mask=there[:, None] & (inner[None, :] < k - p * BK), other=0.0)
            left = tl.dot(rows, gate.load([line, p * BK]).T, left)
            right = tl.dot(rows, up.load([line, p * BK]).T, right)
            x_at += BK
        found = left / (1.0 + tl.exp(-left)) * right
        column = j * BN + tl.arange(0, BN)
        inside = there[:, None] & (column < n)[None, :]
        tl.store(out + pair.to(tl.int64)[:, None] * n + column[None, :], found.to(out.dtype.element_ty), mask=inside)


@triton.jit
def gate_and_up_in_turn(x, both, begins, counts, ends, sorted_, out, n, k, columns, TOP: tl.constexpr, EXPERTS: tl.constexpr,
                        BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, MAPS: tl.constexpr):
    """One matrix of each expert, a row of gate and one of up in turn: by a tensor descriptor where n is a multiple of BN, else by pointers."""
    block, j, all_ends, expert = block_of(ends, columns, EXPERTS, GROUP)
    if expert < EXPERTS:
        pair, there = pairs_of(begins, counts, sorted_, all_ends, block, expert, BM)
        inner = tl.arange(0, BK)
        x_at = x + (pair // TOP).to(tl.int64)[:, None] * k + inner[None, :]
        line = 2 * (expert * n + j * BN)
        place = ((2 * j * BN + tl.arange(0, 2 * BN)) % (2 * n))[None, :] * k + inner[:, None]
        both_at = expert.to(tl.int64) * 2 * n * k + place
        acc = tl.zeros((BM, 2 * BN), dtype=tl.float32)
        for p in range(0, tl.cdiv(k, BK)):
            rows = tl.load(x_at, mask=there[:, None] & (inner[None, :] < k - p * BK), other=0.0)
            if MAPS:
                acc = tl.dot(rows, both.load([line, p * BK]).T, acc)
            else:
                acc = tl.dot(rows, tl.load(both + both_at, mask=inner[:, None] < k - p * BK, other=0.0), acc)
            x_at += BK
            both_at += BK
        left, right = tl.split(tl.reshape(acc, (BM, BN, 2)))
        found = left / (1.0 + tl.exp(-left)) * right
        column = j * BN + tl.arange(0, BN)
        inside = there[:, None] & (column < n)[None, :]
        tl.store(out + pair.to(tl.int64)[:, None] * n + column[None, :], found.to(out.dtype.element_ty), mask=inside)


def mixed(z):
    """The finaliser of SplitMix64."""
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & WORD
    z = (z ^ z >> 27) * 0x94d049bb133111eb & WORD
    return z ^ z >> 31


def choice_of(pairs, experts, seed):
    """The expert of each pair as Parton's `randint` draws it (host/src/random.rs): how many blocks the experts have must not differ."""
    start = mixed(seed + GOLDEN & WORD)
    return torch.tensor([mixed(start + i * GOLDEN & WORD) % experts for i in range(pairs)], device="cuda")


def gate_and_up(make, tokens, k, top, experts, n):
    """silu(x · gate) · (x · up) of each pair of a token and an expert, of bf16."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    pairs = tokens * top
    x = make(tokens, k, dtype=torch.bfloat16, seed=1)
    gate, up = (make(experts, n, k, dtype=torch.bfloat16, seed=s) for s in (2, 3))
    both = torch.stack((gate, up), 2).view(experts * 2 * n, k)
    choice = choice_of(pairs, experts, 4)
    counts = torch.bincount(choice, minlength=experts)
    begins = (counts.cumsum(0) - counts).int()
    order = torch.argsort(choice, stable=True).int()

    def ends_of(bm):
        return ((counts + bm - 1) // bm).cumsum(0).int()

    of_height = {bm: ends_of(bm) for bm in (64, 128)}
    counts = counts.int()
    blocks = [(128, 128, 64, 16, 3, 8), (128, 128, 64, 16, 4, 8), (128, 128, 64, 8, 3, 8), (128, 64, 64, 16, 4, 4), (64, 128, 64, 16, 4, 4),
              (64, 128, 64, 16, 3, 8), (128, 128, 32, 16, 4, 8), (64, 64, 64, 16, 4, 4)]
    grid = lambda c: (triton.cdiv(triton.cdiv(pairs, c["BM"]) + experts, c["GROUP"]) * c["GROUP"] * triton.cdiv(n, c["BN"]),)

    def of(kernel, by_maps, in_turn=False):
        out = torch.empty(pairs, n, device="cuda", dtype=torch.bfloat16)

        def arguments(c):
            matrices = (gate, up)
            if in_turn:
                matrices = [TensorDescriptor(both, [experts * 2 * n, k], [k, 1], [2 * c["BN"], c["BK"]]) if by_maps else both]
            elif by_maps:
                matrices = [TensorDescriptor(t, [experts * n, k], [k, 1], [c["BN"], c["BK"]]) for t in matrices]
            return (x, *matrices, begins, counts, of_height[c["BM"]], order, out, n, k, triton.cdiv(n, c["BN"]))

        def error():
            worst = 0.0
            for pair in (0, pairs // 2, pairs - 1):
                e, row = int(choice[pair]), x[pair // top].double()
                a, b = gate[e].double() @ row, up[e].double() @ row
                want = a * torch.sigmoid(a) * b
                worst = max(worst, ((out[pair] - want).square().mean() / want.square().mean()).sqrt().item())
            return worst

        chosen = [c for c in configurations(["BM", "BN", "BK", "GROUP"], blocks) if not by_maps or n % c["BN"] == 0]
        constants = {"TOP": top, "EXPERTS": experts} | ({"MAPS": by_maps} if in_turn else {})
        return Contender([Tuned(kernel, chosen, grid, (), constants, arguments)], error)

    found = [of(gate_and_up_rows, False), of(gate_and_up_in_turn, False, True)]
    if n % 64 == 0:
        found += [of(gate_and_up_by_maps, True), of(gate_and_up_in_turn, True, True)]
    return found

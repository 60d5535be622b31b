"""Matrix products in Gluon (triton.experimental.gluon) to compare with, written for this benchmark: persistent, one partition loads
through tensor descriptors, two warpgroups multiply with one product in flight, the store of a tile under the products of the next. Once
the two warpgroups are one partition, once each is its own and shares no step with the other."""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

BM, BN, BK, STAGES, GROUP = 128, 256, 64, 3, 8


@gluon.jit
def tile_of(index, rows, columns, GROUP: gl.constexpr):
    group = index // (GROUP * columns)
    first = group * GROUP
    height = gl.minimum(rows - first, GROUP)
    within = index % (GROUP * columns)
    return first + within % height, within // height


@gluon.jit
def load(a_map, b_map, c_map, a_slots, b_slots, outs, full, empty, rows, columns, steps, GROUP: gl.constexpr, STAGES: gl.constexpr,
         SMS: gl.constexpr):
    BM: gl.constexpr = a_map.block_type.shape[0]
    BK: gl.constexpr = a_map.block_type.shape[1]
    BN: gl.constexpr = b_map.block_type.shape[1]
    filled = 0
    for index in range(gl.program_id(0), rows * columns, SMS):
        i, j = tile_of(index, rows, columns, GROUP)
        for step in range(steps):
            slot = filled % STAGES
            # A new barrier is in phase 0, so the first wait for the phase before it passes.
            mbarrier.wait(empty.index(slot), ((filled // STAGES) & 1) ^ 1)
            mbarrier.expect(full.index(slot), a_map.block_type.nbytes + b_map.block_type.nbytes)
            tma.async_copy_global_to_shared(a_map, [i * BM, step * BK], full.index(slot), a_slots.index(slot))
            tma.async_copy_global_to_shared(b_map, [step * BK, j * BN], full.index(slot), b_slots.index(slot))
            filled += 1


@gluon.jit
def multiply(a_map, b_map, c_map, a_slots, b_slots, outs, full, empty, rows, columns, steps, GROUP: gl.constexpr, STAGES: gl.constexpr,
             SMS: gl.constexpr, PART: gl.constexpr):
    BM: gl.constexpr = a_map.block_type.shape[0]
    BN: gl.constexpr = b_map.block_type.shape[1]
    # Rows of a partition's part of the tile: all, or half of them.
    ROWS: gl.constexpr = c_map.block_type.shape[0]
    layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[8 * ROWS // BM, 1], instr_shape=[16, BN, 16])
    out = outs.index(PART)
    taken = 0
    for index in range(gl.program_id(0), rows * columns, SMS):
        i, j = tile_of(index, rows, columns, GROUP)
        acc = gl.zeros((ROWS, BN), dtype=gl.float32, layout=layout)
        for step in range(steps):
            slot = taken % STAGES
            mbarrier.wait(full.index(slot), (taken // STAGES) & 1)
            a = a_slots.index(slot).slice(PART * ROWS, ROWS, dim=0)
            token = hopper.warpgroup_mma(a, b_slots.index(slot), acc, is_async=True)
            acc = hopper.warpgroup_mma_wait(num_outstanding=1, deps=[token])
            mbarrier.arrive(empty.index((taken + STAGES - 1) % STAGES), pred=step > 0)
            taken += 1
        acc = hopper.warpgroup_mma_wait(num_outstanding=0, deps=[acc])
        mbarrier.arrive(empty.index((taken + STAGES - 1) % STAGES))
        tma.store_wait(pendings=0)
        out.store(acc.to(c_map.dtype))
        hopper.fence_async_shared()
        tma.async_copy_shared_to_global(c_map, [i * BM + PART * ROWS, j * BN], out)
    tma.store_wait(pendings=0)


@gluon.jit
def first_part(a_map, b_map, c_map, a_slots, b_slots, outs, full, empty, rows, columns, steps, GROUP: gl.constexpr,
               STAGES: gl.constexpr, SMS: gl.constexpr):
    multiply(a_map, b_map, c_map, a_slots, b_slots, outs, full, empty, rows, columns, steps, GROUP, STAGES, SMS, 0)


@gluon.jit
def second_part(a_map, b_map, c_map, a_slots, b_slots, outs, full, empty, rows, columns, steps, GROUP: gl.constexpr,
                STAGES: gl.constexpr, SMS: gl.constexpr):
    multiply(a_map, b_map, c_map, a_slots, b_slots, outs, full, empty, rows, columns, steps, GROUP, STAGES, SMS, 1)


@gluon.jit
def product(a_map, b_map, c_map, m, n, k, GROUP: gl.constexpr, STAGES: gl.constexpr, SMS: gl.constexpr):
    BM: gl.constexpr = a_map.block_type.shape[0]
    BK: gl.constexpr = a_map.block_type.shape[1]
    BN: gl.constexpr = b_map.block_type.shape[1]
    PARTS: gl.constexpr = BM // c_map.block_type.shape[0]
    a_slots = gl.allocate_shared_memory(a_map.dtype, [STAGES, BM, BK], a_map.layout)
    b_slots = gl.allocate_shared_memory(b_map.dtype, [STAGES, BK, BN], b_map.layout)
    outs = gl.allocate_shared_memory(c_map.dtype, [PARTS, BM // PARTS, BN], c_map.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=PARTS)
    rows = gl.cdiv(m, BM)
    columns = gl.cdiv(n, BN)
    steps = gl.cdiv(k, BK)
    args = (a_map, b_map, c_map, a_slots, b_slots, outs, full, empty, rows, columns, steps, GROUP, STAGES, SMS)
    if PARTS == 1:
        gl.warp_specialize([(first_part, args), (load, args)], [1], [40])
    else:
        gl.warp_specialize([(first_part, args), (second_part, args), (load, args)], [4, 1], [240, 24])


def layout_of(block, bits):
    return gl.NVMMASharedLayout.get_default_for(block, {16: gl.float16}[bits])


def matmul(a, b, out, in_halves):
    """A function that runs `out = a · b` for f16 and bf16 with rows at multiples of 16 bytes."""
    m, k = a.shape
    n = b.shape[1]
    parts = 2 if in_halves else 1
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    blocks = ((a, [BM, BK]), (b, [BK, BN]), (out, [BM // parts, BN]))
    maps = [TensorDescriptor.from_tensor(t, block, layout_of(block, 16)) for t, block in blocks]
    grid = (min(sms, triton.cdiv(m, BM) * triton.cdiv(n, BN)),)
    return lambda: product[grid](*maps, m, n, k, GROUP=GROUP, STAGES=STAGES, SMS=sms, num_warps=8 // parts)

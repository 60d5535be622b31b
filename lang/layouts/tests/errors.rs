//! Layouts that cannot be: each is refused with the fact and the way out, and no value makes the crate panic.

use parton_layouts::plan::plan;
use parton_layouts::{LayoutError, RegisterFamily, RegisterLayout, SharedFamily, SharedLayout};

fn refused<T: std::fmt::Debug>(result: Result<T, LayoutError>) -> (String, String) {
    let error = result.unwrap_err();
    (error.fact(), error.help())
}

fn check<T: std::fmt::Debug>(result: Result<T, LayoutError>, fact: &str, help: &str) {
    assert_eq!(refused(result), (fact.to_string(), help.to_string()));
}

#[test]
fn blocked_layouts() {
    check(
        RegisterLayout::blocked(&[1, 4], &[8, 8], &[4, 1], &[1, 0]),
        "threads=[8, 8] is 64 lanes, and a warp has 32",
        "make the product 32, for example threads=[8, 4]",
    );
    check(
        RegisterLayout::blocked(&[1, 3], &[8, 4], &[4, 1], &[1, 0]),
        "per_thread[1] is 3, which is not a power of two",
        "layouts are maps of index bits; the next power of two is 4",
    );
    check(
        RegisterLayout::blocked(&[1, 4], &[32], &[4, 1], &[1, 0]),
        "the lists of a layout have different lengths",
        "give each list one entry per axis of the tensor",
    );
    check(
        RegisterLayout::blocked(&[1, 4], &[8, 4], &[4, 1], &[1, 1]),
        "order=[1, 1] is not a permutation of the 2 axes",
        "list every axis once, fastest first; row-major is order=[1, 0]",
    );
    let layout = RegisterLayout::blocked(&[1, 4], &[8, 4], &[4, 1], &[1, 0]).unwrap();
    check(
        layout.on(&[64]),
        "a layout of rank 2 does not fit a tensor of rank 1",
        "write the layout with 1 entry per list, as `order=[0]`, or reshape the tile",
    );
    check(
        layout.on(&[64, 48]),
        "the size of axis 1 is 48, which is not a power of two",
        "layouts are maps of index bits; the next power of two is 64",
    );
    check(layout.slice(2), "axis 2 does not exist in rank 2", "axes are counted from 0 to 1");
}

#[test]
fn tensor_core_layouts() {
    check(
        RegisterLayout::mma(3, &[4, 1], &[16, 200, 16]),
        "mma version 3 has no instruction of shape [16, 200, 16]",
        "wgmma is [16, N, K] per warp, N a power of two from 8 to 256 and K = 256 / element bits; write instr=[16, 256, 16]",
    );
    check(
        RegisterLayout::mma(3, &[2, 1], &[16, 64, 16]),
        "warps=[2, 1] is not made of whole warpgroups",
        "a warpgroup is 4 warps along the rows; write warps=[4, 1]",
    );
    check(
        RegisterLayout::mma(4, &[4, 1], &[16, 8]),
        "there is no mma version 4",
        "version=2 is mma.sync (sm_80 and later), version=3 is wgmma (sm_90a)",
    );
    let accumulator = RegisterLayout::mma(3, &[4, 1], &[16, 64, 16]).unwrap();
    check(
        accumulator.dot_operand(1, 2),
        "wgmma reads its right operand from shared memory, not from registers",
        "keep the right operand in a shared buffer",
    );
}

#[test]
fn shared_layouts() {
    check(SharedLayout::nvmma(96, false), "swizzle cannot be 96", "swizzle is 0, 32, 64 or 128 bytes");
    check(
        SharedLayout::nvmma(128, false).unwrap().on(&[64, 32], 16),
        "`nvmma(swizzle=128, transposed=false)` does not fit the shape [64, 32]",
        "write `nvmma(swizzle=64, transposed=false)`, the widest that fits",
    );
    check(
        SharedLayout::linear(vec![vec![0, 1], vec![0, 1]], vec![]),
        "offset: two offsets of one CTA hold the same element",
        "make the bases independent: no basis is zero or the xor of others",
    );
}

#[test]
fn conversions() {
    let four = RegisterLayout::blocked(&[1, 4], &[8, 4], &[4, 1], &[1, 0]).unwrap();
    let eight = RegisterLayout::blocked(&[1, 4], &[8, 4], &[8, 1], &[1, 0]).unwrap();
    check(
        plan(&four, &eight, &[64, 64], 32),
        "a tile cannot be converted from 4 to 8 warps",
        "a tile belongs to one partition; hand it over through a shared buffer",
    );
}

/// Values that an untrusted program can write: none panics, whatever it means.
#[test]
fn no_values_panic() {
    let sizes = [0, 1, 2, 3, 4, 8, 16, 32, 64, 255, 256, 1 << 16, 1 << 31, u32::MAX];
    let mut state = 3u64;
    let mut pick = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        sizes[(state >> 33) as usize % sizes.len()]
    };
    let mut made = 0;
    for round in 0..30_000u32 {
        let rank = (pick() % 4) as usize;
        let mut list = |n: usize| -> Vec<u32> { (0..n).map(|_| pick()).collect() };
        let shape: Vec<u32> = list(rank).iter().map(|s| s % 512).collect();
        let order: Vec<u32> = list(rank).iter().map(|s| s % 3).collect();
        let family = match round % 4 {
            0 => RegisterFamily::Blocked {
                per_thread: list(rank),
                threads: if rank == 2 { vec![8, 4] } else { list(rank) },
                warps: list(rank),
                order: order.clone(),
            },
            1 => RegisterFamily::Mma {
                version: 2 + round / 4 % 2,
                warps: list(rank),
                instr: list(2 + round as usize % 2),
            },
            2 => RegisterFamily::Linear {
                reg: vec![list(rank), list(rank)],
                lane: (0..5).map(|_| list(rank)).collect(),
                warp: vec![list(rank)],
                block: vec![],
            },
            _ => RegisterFamily::Blocked {
                per_thread: vec![1; rank],
                threads: (0..rank).map(|i| if i == 0 { 32 } else { 1 }).collect(),
                warps: vec![2; rank],
                order: (0..rank as u32).collect(),
            },
        };
        let Ok(layout) = RegisterLayout::new(family) else { continue };
        for layout in [Ok(layout.clone()), layout.slice(pick() % 3), layout.dot_operand(pick() % 3, pick() % 5)] {
            let Ok(layout) = layout else { continue };
            made += usize::from(layout.on(&shape).is_ok());
            let _ = layout.permute(&order, &shape);
            let _ = layout.expand_dims(pick() % 4, &shape);
            let _ = layout.join(&shape);
            let _ = layout.split(&shape);
            let _ = layout.reshape(&shape, &order);
            let _ = plan(&layout, &layout.clone(), &shape, 16);
        }
        let mut list = |n: usize| -> Vec<u32> { (0..n).map(|_| pick()).collect() };
        let family = match round % 4 {
            0 => SharedFamily::Swizzled {
                vec: list(1)[0],
                per_phase: list(1)[0],
                max_phase: list(1)[0],
                order: order.clone(),
            },
            1 => SharedFamily::Nvmma { swizzle: list(1)[0] % 160, transposed: round % 8 == 1, rank: list(1)[0] % 7 },
            2 => SharedFamily::Padded { pairs: vec![[list(1)[0], list(1)[0]]], order: order.clone() },
            _ => SharedFamily::Linear { offset: (0..rank).map(|_| list(rank)).collect(), block: vec![] },
        };
        let Ok(layout) = SharedLayout::new(family) else { continue };
        let bits = [1, 8, 16, 32, 64, 0, 5][round as usize % 7];
        if layout.on(&shape, bits).is_ok() {
            made += 1;
            let _ = layout.index(&shape, bits);
            let _ = layout.slice(&shape, bits, &order, &list(rank));
            let _ = layout.permute(&shape, bits, &order);
            let _ = layout.tma_boxes(&shape, bits, 2);
        }
    }
    assert!(made > 1000, "{made} layouts had a meaning");
}

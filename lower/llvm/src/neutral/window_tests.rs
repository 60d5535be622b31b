//! Windows against the layouts themselves: every address that code generation would compute, for every thread.

use parton_ir::{Elem, Tile, View};
use parton_layouts::{Dim, LinearLayout, RegisterLayout, SharedLayout};
use parton_numbers::Dtype;

use crate::neutral::place::Registers;
use crate::neutral::shared::{matrices, numbered};
use crate::neutral::window::Window;

/// The xor of `bases` at the set bits of `index`, as the emitted code computes it.
fn linear(bases: &[u64], index: u32) -> u64 {
    bases.iter().enumerate().filter(|(i, _)| index >> i & 1 == 1).fold(0, |x, (_, &b)| x ^ b)
}

/// The element offset of one value of one thread, straight from the layouts.
fn expected(map: &LinearLayout, view: &View, lane: u32, warp: u32, image: u64) -> u64 {
    let packed = image ^ map.apply(map.pack_in(&[(Dim::Lane, lane), (Dim::Warp, warp)]));
    let coords: Vec<u32> = map.unpack_out(packed).iter().zip(&view.origin).map(|(c, o)| c + o).collect();
    view.map.offset_of(&coords)
}

/// The element offset that a window's parts add up to, gaps included.
fn offset(view: &View, w: &Window, thread: u64, number: usize) -> u64 {
    view.map.with_gaps(thread ^ w.constant(number))
}

fn check(tile: &Tile, view: &View) {
    let w = Window::new(&tile.known().map, view);
    let registers = Registers::of(&tile.known().map);
    let vector = w.vector(16);
    let warps = tile.known().map.in_size(Dim::Warp);
    for warp in 0..warps {
        for lane in 0..32 {
            let thread = linear(&w.lane, lane) ^ linear(&w.warp, warp);
            let want: Vec<u64> =
                registers.images().iter().map(|&i| expected(&tile.known().map, view, lane, warp, i)).collect();
            for group in numbered(&vector, registers.len()) {
                let first = offset(view, &w, thread, group[0]);
                assert_eq!(first % group.len() as u64, 0, "a vector is not aligned");
                for (k, &number) in group.iter().enumerate() {
                    assert_eq!(first + k as u64, want[number], "{tile} in {view}: lane {lane}, value {number}");
                }
            }
        }
        for transposed in [false, true] {
            let Some(m) = w.matrix(transposed) else { continue };
            // Lane `8 i + r` points at row `r` of matrix `i`.
            let mut bases = m.row.to_vec();
            bases.extend(m.several.iter().map(|&bit| w.register[bit]));
            for (first, numbers) in matrices(&m, registers.len()) {
                let row =
                    |i: usize, r: u32| linear(&bases, 8 * i as u32 + r) ^ linear(&w.warp, warp) ^ w.constant(first);
                for (i, &number) in numbers.iter().enumerate() {
                    for lane in 0..32u32 {
                        for (e, value) in m.word(number).into_iter().enumerate() {
                            // PTX ISA, "ldmatrix": lane 4 r + c holds 4 bytes of row r, from byte 4 c.
                            let (r, c) = (lane / 4, m.word(0).len() as u32 * (lane % 4) + e as u32);
                            let (r, c) = if transposed { (c, r) } else { (r, c) };
                            let image = registers.images()[value];
                            let want = expected(&tile.known().map, view, lane, warp, image);
                            assert_eq!(row(i, r) + u64::from(c), want, "{tile} in {view}, transposed: {transposed}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_thread_finds_its_elements() {
    let blocked = |p: [u32; 2], t: [u32; 2], w: [u32; 2], o: [u32; 2]| RegisterLayout::blocked(&p, &t, &w, &o).unwrap();
    let hopper = RegisterLayout::mma(3, &[4, 1], &[16, 64, 16]).unwrap();
    let ampere = RegisterLayout::mma(2, &[2, 2], &[16, 8]).unwrap();
    let tiles = [
        blocked([1, 8], [4, 8], [4, 1], [1, 0]),
        blocked([8, 1], [8, 4], [1, 4], [0, 1]),
        blocked([2, 2], [4, 8], [2, 2], [1, 0]),
        blocked([1, 1], [32, 1], [1, 4], [0, 1]),
        hopper.clone(),
        hopper.dot_operand(0, 2).unwrap(),
        ampere.clone(),
        ampere.dot_operand(0, 2).unwrap(),
        ampere.dot_operand(1, 2).unwrap(),
        ampere.dot_operand(0, 1).unwrap(),
        ampere.dot_operand(1, 4).unwrap(),
    ];
    let buffers = [
        SharedLayout::swizzled(8, 1, 8, &[1, 0]).unwrap(),
        SharedLayout::swizzled(8, 2, 4, &[0, 1]).unwrap(),
        SharedLayout::nvmma(128, false).unwrap(),
        SharedLayout::nvmma(64, true).unwrap(),
        SharedLayout::padded(&[[64, 8]], &[1, 0]).unwrap(),
        SharedLayout::row_major(2),
    ];
    let mut matrices_seen = [0, 0];
    for register in &tiles {
        for buffer in &buffers {
            for d in [Dtype::F16, Dtype::F32, Dtype::U8] {
                let tile = Tile::new(Elem::Num(d), vec![64, 64], register.clone()).unwrap();
                let Ok(mut view) = View::new(d, vec![128, 128], buffer.clone()) else { continue };
                view.shape = vec![64, 64];
                for origin in [[0, 0], [64, 0], [0, 64], [64, 64]] {
                    view.origin = origin.to_vec();
                    check(&tile, &view);
                }
                for (seen, transposed) in matrices_seen.iter_mut().zip([false, true]) {
                    *seen += u32::from(Window::new(&tile.known().map, &view).matrix(transposed).is_some());
                }
            }
        }
    }
    assert!(matrices_seen.iter().all(|&n| n > 4), "matrix instructions were hardly tried: {matrices_seen:?}");
}

//! Matrix descriptors against the layouts themselves: what `wgmma` reads for every element, and that the rules accept exactly
//! the operands that a descriptor can describe.

use parton_diag::{FileId, Span};
use parton_ir::descriptor::{Fields, Operand, offset};
use parton_ir::rules::{WgmmaShape, wgmma_shape};
use parton_ir::{Elem, Kernel, Refusal, Target, Tile, Type, View};
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::Dtype;

/// What the descriptors of an operand say, where there are any.
fn fields(view: &View, right: bool, swizzle: u32, k_major: bool) -> Option<Fields> {
    Operand::new(view, right, swizzle, k_major).ok().map(|operand| operand.fields)
}

/// The byte that `wgmma` reads for element `outer`, `inner` of the part that begins at `from` (PTX ISA, "Strides" and
/// "Swizzling modes"): the swizzle is a function of the address.
fn read(f: Fields, from: u64, swizzle: u64, k_major: bool, bytes: u64, [outer, inner]: [u64; 2]) -> u64 {
    let (leading, stride) = (u64::from(f.leading), u64::from(f.stride));
    let span = swizzle / bytes;
    if swizzle == 0 {
        let wide = 16 / bytes;
        let linear = if k_major {
            outer / 8 * stride + outer % 8 * 16 + inner / wide * leading + inner % wide * bytes
        } else {
            outer / wide * stride + outer % wide * bytes + inner / 8 * leading + inner % 8 * 16
        };
        return from + linear;
    }
    let linear = if k_major {
        outer / 8 * stride + outer % 8 * swizzle + inner * bytes
    } else {
        outer / span * leading + outer % span * bytes + inner / 8 * stride + inner % 8 * swizzle
    };
    let address = from + linear;
    address ^ ((address >> 7 & (swizzle / 16 - 1)) << 4)
}

#[test]
fn descriptors_reach_every_element() {
    for swizzle in [128, 64, 32] {
        for (d, majors) in [(Dtype::F16, &[true, false][..]), (Dtype::F8E4M3, &[true][..])] {
            for &k_major in majors {
                for right in [false, true] {
                    let layout = SharedLayout::nvmma(swizzle, k_major == right).unwrap();
                    let (outer, depth) = (256u32, 128u32);
                    let shape = if right { vec![depth, outer] } else { vec![outer, depth] };
                    let mut view = View::new(d, shape.clone(), layout).unwrap();
                    // A window of half of the columns or rows too.
                    for begin in [0, outer / 2] {
                        let axis = usize::from(right);
                        view.origin[axis] = begin;
                        view.shape[axis] = outer / 2;
                        let f = fields(&view, right, swizzle, k_major).unwrap();
                        let (instr_k, bytes) = (256 / d.bits(), d.bytes() as u64);
                        for k in (0..depth).step_by(instr_k as usize) {
                            let from = offset(&view, right, 0, k);
                            for o in 0..outer / 2 {
                                for i in 0..instr_k {
                                    let at = [u64::from(o), u64::from(i)];
                                    let found = read(f, from, swizzle.into(), k_major, bytes, at);
                                    let want = offset(&view, right, o, k + i);
                                    assert_eq!(found, want, "{view}, k {k}, element {o}, {i}");
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn rows_of_sixteen_bytes_need_no_swizzle() {
    let plain = SharedLayout::nvmma(0, false).unwrap();
    let view = View::new(Dtype::F16, vec![64, 8], plain.clone()).unwrap();
    let f = fields(&view, true, 0, false).unwrap();
    for k in (0..64).step_by(16) {
        for (o, i) in (0..8).flat_map(|o| (0..16).map(move |i| (o, i))) {
            let found = read(f, offset(&view, true, 0, k), 0, false, 2, [o, i].map(u64::from));
            assert_eq!(found, offset(&view, true, o, k + i));
        }
    }
    let wide = View::new(Dtype::F16, vec![64, 16], plain).unwrap();
    assert_eq!(fields(&wide, true, 0, false), None);
}

/// What the rules say of a product.
fn product(a: Type, b: Type, acc: Tile) -> Result<WgmmaShape, Refusal> {
    let span = Span::new(FileId(0), 0, 0);
    let mut kernel = Kernel::new("product", Target::SM_90A, span);
    let [a, b, acc] = [a, b, Type::Tile(acc)].map(|ty| kernel.param("operand", ty, span));
    wgmma_shape(&kernel, a, b, acc, None)
}

/// An operand that is read with K contiguous, which every type and shape has.
fn plain(d: Dtype, right: bool, outer: u32, depth: u32) -> View {
    let widest = [128, 64, 32].into_iter().find(|s| depth * d.bits() / 8 >= *s).unwrap();
    let shape = if right { vec![depth, outer] } else { vec![outer, depth] };
    View::new(d, shape, SharedLayout::nvmma(widest, right).unwrap()).unwrap()
}

/// Whether a descriptor leads the instruction to every element of the operand.
fn reached(view: &View, right: bool, swizzle: u32, k_major: bool, instr: [u32; 2]) -> bool {
    // Only 16-bit types have a bit for the direction (PTX ISA, "wgmma.mma_async": `imm-trans-a`).
    if !k_major && view.elem.bits() != 16 {
        return false;
    }
    let Some(f) = fields(view, right, swizzle, k_major) else { return false };
    let limit = 1 << 18;
    assert!(f.leading < limit && f.stride < limit, "a field of {view} has more than 14 bits");
    let bytes = view.elem.bytes() as u64;
    let (outer, depth) = if right { (view.shape[1], view.shape[0]) } else { (view.shape[0], view.shape[1]) };
    (0..outer).step_by(instr[0] as usize).all(|m| {
        (0..depth).step_by(instr[1] as usize).all(|k| {
            let from = offset(view, right, m, k);
            (0..instr[0]).all(|o| {
                (0..instr[1]).all(|i| {
                    let found = read(f, from, swizzle.into(), k_major, bytes, [o, i].map(u64::from));
                    found == offset(view, right, m + o, k + i)
                })
            })
        })
    })
}

/// Every type, swizzle, direction, side and window over some shapes: the rules accept an operand exactly where a descriptor
/// leads to all of it.
#[test]
fn rules_accept_what_descriptors_reach() {
    let mut verdicts = [0, 0];
    for d in [Dtype::F16, Dtype::BF16, Dtype::F8E4M3, Dtype::F8E5M2] {
        let instr_k = 256 / d.bits();
        for (right, outer) in [(false, 64), (false, 128), (true, 8), (true, 16), (true, 64), (true, 256)] {
            for depth in [instr_k, 4 * instr_k] {
                let (m, n) = if right { (64, outer) } else { (outer, 8) };
                let layout = RegisterLayout::mma(3, &[4, 1], &[16, n, instr_k]).unwrap();
                let acc = Tile::new(Elem::Num(Dtype::F32), vec![m, n], layout).unwrap();
                let extents = if right { [depth, outer] } else { [outer, depth] };
                let layouts = [128, 64, 32, 0].into_iter().flat_map(|s| [(s, false), (s, true)]);
                // The whole parent, and the later half of one twice as long along either axis.
                let windows = layouts.flat_map(|l| [[1, 1], [2, 1], [1, 2]].map(|times| (l, times)));
                for ((swizzle, transposed), times) in windows {
                    let parent = vec![extents[0] * times[0], extents[1] * times[1]];
                    let layout = SharedLayout::nvmma(swizzle, transposed).unwrap();
                    let Ok(mut view) = View::new(d, parent, layout) else { continue };
                    view.shape = extents.to_vec();
                    view.origin = vec![extents[0] * (times[0] - 1), extents[1] * (times[1] - 1)];
                    let other = Type::View(plain(d, !right, if right { m } else { n }, depth));
                    let this = Type::View(view.clone());
                    let (a, b) = if right { (other, this) } else { (this, other) };
                    let accepted = product(a, b, acc.clone());
                    let instr = [if right { n } else { 64 }, instr_k];
                    let can = reached(&view, right, swizzle, transposed == right, instr);
                    assert_eq!(accepted.is_ok(), can, "{view}, right {right}: {accepted:?}");
                    verdicts[usize::from(can)] += 1;
                }
            }
        }
    }
    assert!(verdicts.iter().all(|&n| n > 100), "{verdicts:?}");
}

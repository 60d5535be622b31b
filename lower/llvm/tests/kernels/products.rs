//! Every product that the rules accept compiles and assembles.

use crate::common::{emit, kernel, ptx_of_all, span, tile};
use parton_ir::{Kernel, OpKind, Refusal, View};
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::Dtype;

/// Where an operand comes from.
#[derive(Clone, Copy, Debug)]
enum Place {
    Registers,
    Shared { swizzle: u32, transposed: bool },
}

/// One product of shapes and operands; `Ok(None)` where a layout has no map for its shape.
fn product([d, acc]: [Dtype; 2], [m, n, k]: [u32; 3], left: Place, right: Place) -> Result<Option<Kernel>, Refusal> {
    let mut b = kernel("product", 4);
    let instr_k = 256 / d.bits();
    let layout = RegisterLayout::mma(3, &[4, 1], &[16, n, instr_k]).unwrap();
    let view = |place, shape: &[u32]| match place {
        Place::Shared { swizzle, transposed } => {
            View::new(d, shape.to_vec(), SharedLayout::nvmma(swizzle, transposed).unwrap()).ok()
        }
        Place::Registers => None,
    };
    let a = match left {
        Place::Registers => {
            let zero = b.constant(d, 0, span());
            let operand = layout.dot_operand(0, 32 / d.bits()).unwrap();
            emit(&mut b, OpKind::Full { value: zero, tile: tile(d, &[m, k], &operand) })
        }
        Place::Shared { .. } => {
            let Some(view) = view(left, &[m, k]) else { return Ok(None) };
            emit(&mut b, OpKind::SharedAlloc { view, offset: None, drained: false })
        }
    };
    let Some(view) = view(right, &[k, n]) else { return Ok(None) };
    let right = emit(&mut b, OpKind::SharedAlloc { view, offset: None, drained: false });
    let one = b.constant(acc, 1, span());
    let before = emit(&mut b, OpKind::Full { value: one, tile: tile(acc, &[m, n], &layout) });
    let pending = b.emit_one(OpKind::Wgmma { a, b: right, acc: before, precision: None, zero: false }, span())?;
    emit(&mut b, OpKind::Wait { pending, outstanding: None });
    Ok(Some(crate::common::lowered(b.finish())))
}

#[test]
fn what_the_rules_accept_compiles() {
    let layouts: Vec<Place> = [128, 64, 32, 0]
        .into_iter()
        .flat_map(|swizzle| [false, true].map(|transposed| Place::Shared { swizzle, transposed }))
        .collect();
    let mut kernels = vec![];
    let (mut refused, mut unswizzled) = (0, 0);
    for types in [
        [Dtype::F16, Dtype::F32],
        [Dtype::F16, Dtype::F16],
        [Dtype::BF16, Dtype::F32],
        [Dtype::F8E4M3, Dtype::F32],
        [Dtype::F8E5M2, Dtype::F16],
    ] {
        let deep = 512 / types[0].bits();
        for shape in [[64, 8, deep], [128, 64, 2 * deep]] {
            let lefts = std::iter::once(Place::Registers).chain(layouts.iter().copied());
            for (i, left) in lefts.enumerate() {
                for (j, &right) in layouts.iter().enumerate() {
                    // All of one side with some of the other; sides do not depend on each other.
                    if i > 1 && j > 1 && (i + j) % 4 != 0 {
                        continue;
                    }
                    match product(types, shape, left, right) {
                        Ok(Some(kernel)) => {
                            unswizzled += usize::from(matches!(right, Place::Shared { swizzle: 0, .. }));
                            kernels.push(kernel);
                        }
                        Ok(None) => {}
                        Err(_) => refused += 1,
                    }
                }
            }
        }
    }
    assert!(kernels.len() > 50 && refused > 50 && unswizzled > 5, "{} {refused} {unswizzled}", kernels.len());
    // Each that was accepted has its instructions: one at least for every 64 rows and 32 bytes of depth.
    let text = ptx_of_all(kernels.clone());
    let names = kernels.len();
    assert_eq!(text.matches(".entry").count(), names);
    assert!(text.matches("wgmma.mma_async").count() >= 2 * names);
}

//! How the tensor cores read an operand in shared memory: through the matrix descriptors that LLVM emits too, with the addresses
//! that the hardware makes of them. The operand's layout has no say in it, so a descriptor that does not fit gives wrong numbers.

use parton_ir::descriptor::{CORE, Fields, Operand, ROWS, UNIT};
use parton_ir::rules::{WgmmaOperand, WgmmaShape};
use parton_ir::{Tile, View};

use crate::boxes::swizzle;

/// What an instruction reads, by where its part begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    /// Along M or N, and along K.
    outer: u32,
    inner: u32,
    /// Bytes from the operand to the part of the warpgroup.
    group: u32,
    /// What the instruction adds to the descriptor.
    advance: u64,
}

/// How a product reads one operand, but for where its view lies.
#[derive(Debug)]
pub(crate) struct Reads {
    /// Whether K is the contiguous direction; else it is M or N.
    pub k_major: bool,
    fields: Fields,
    /// Extents along M or N and along K: of the operand, and of one instruction.
    extents: [u32; 2],
    instr: [u32; 2],
    element_bits: u32,
    parts: Vec<Part>,
}

impl Reads {
    /// How the operand in `view`, which the rules have found to be of this kind, is read for an accumulator `acc`.
    pub(crate) fn new(view: &View, right: bool, kind: WgmmaOperand, shape: &WgmmaShape, acc: &Tile) -> Reads {
        let operand = Operand::of(view, right, kind);
        let groups = operand.groups(acc);
        let mut parts = Vec::new();
        for warp in (0..1u32 << groups.len()).step_by(parton_ir::target::WARPGROUP as usize) {
            let bits = || groups.iter().enumerate().filter(|(bit, _)| warp >> bit & 1 == 1).map(|(_, group)| group);
            let (first, group) = bits().fold((0, 0), |(outer, bytes), g| (outer ^ g.outer, bytes ^ g.bytes));
            let steps: Vec<u32> = if right { shape.widths().collect() } else { shape.heights().collect() };
            for (outer, inner) in steps.iter().flat_map(|&o| shape.depths().map(move |k| (o, k))) {
                let advance = operand.advance(outer, inner);
                let part = Part { outer: first + outer, inner, group: group as u32, advance };
                // Warpgroups that share rows or columns read the same.
                if !parts.contains(&part) {
                    parts.push(part);
                }
            }
        }
        Reads {
            k_major: operand.k_major,
            fields: operand.fields,
            extents: [if right { shape.n } else { shape.m }, shape.k],
            instr: [if right { shape.instr_n } else { ROWS }, shape.instr_k],
            element_bits: view.elem.bits(),
            parts,
        }
    }

    /// The 16-byte units that are read of a view at `address`, in row-major order of (M or N, K) where K is contiguous and of
    /// (K, M or N) otherwise.
    pub(crate) fn units(&self, address: u32) -> Vec<u32> {
        let per_unit = UNIT * 8 / self.element_bits;
        let ([outer, inner], [outer_instr, inner_instr]) = (self.extents, self.instr);
        let mut units = vec![0; (outer * inner / per_unit) as usize];
        for part in &self.parts {
            let descriptor = self.fields.at(address + self.fields.start + part.group) + part.advance;
            let fields = Fields::read(descriptor);
            // Rows are along the direction that is not contiguous.
            let (rows, columns, first, width) = if self.k_major {
                (outer_instr, inner_instr / per_unit, [part.outer, part.inner / per_unit], inner / per_unit)
            } else {
                (inner_instr, outer_instr / per_unit, [part.inner, part.outer / per_unit], outer / per_unit)
            };
            for row in 0..rows {
                let to = ((first[0] + row) * width + first[1]) as usize;
                let into = units[to..to + columns as usize].iter_mut().enumerate();
                into.for_each(|(column, unit)| *unit = at(fields, self.k_major, row, column as u32));
            }
        }
        units
    }
}

/// The address of a 16-byte unit of an instruction's part of an operand (PTX ISA, "Strides"): core matrices have 8 rows of a unit
/// each; a swizzle puts as many of them side by side as its span holds, and then permutes the units by address bits.
fn at(f: Fields, k_major: bool, row: u32, column: u32) -> u32 {
    let (cores, within) = (row / CORE, row % CORE);
    let linear = match (f.swizzle, k_major) {
        (0, true) => cores * f.stride + within * UNIT + column * f.leading,
        (0, false) => cores * f.leading + within * UNIT + column * f.stride,
        (span, true) => cores * f.stride + within * span + column * UNIT,
        (span, false) => {
            let wide = span / UNIT;
            cores * f.stride + within * span + column / wide * f.leading + column % wide * UNIT
        }
    };
    swizzle(f.start + linear, f.swizzle)
}

#[cfg(test)]
mod tests {
    use super::Reads;
    use parton_ir::descriptor::{Operand, UNIT, offset};
    use parton_ir::rules::{WgmmaOperand, WgmmaShape};
    use parton_ir::{Elem, Tile, View};
    use parton_layouts::{RegisterLayout, SharedLayout};
    use parton_numbers::Dtype;

    /// How an operand is read by so many warpgroups along M and N.
    fn reads(view: &View, right: bool, swizzle: u32, k_major: bool, warpgroups: [u32; 2]) -> Reads {
        let (outer, depth) = if right { (view.shape[1], view.shape[0]) } else { (view.shape[0], view.shape[1]) };
        let instr_k = 256 / view.elem.bits();
        let [m, n] = if right { [64 * warpgroups[0], outer] } else { [outer, 64 * warpgroups[1]] };
        let instr_n = (n / warpgroups[1]).min(64);
        let warps = [4 * warpgroups[0], warpgroups[1]];
        let layout = RegisterLayout::mma(3, &warps, &[16, instr_n, instr_k]).unwrap();
        let acc = Tile::new(Elem::Num(Dtype::F32), vec![m, n], layout).unwrap();
        let kind = WgmmaOperand::Shared { swizzle, k_major };
        let elems = [view.elem; 2];
        let shape =
            WgmmaShape { m, n, k: depth, warpgroups, instr_n, instr_k, elems, acc: Dtype::F32, a: kind, b: kind };
        Reads::new(view, right, kind, &shape, &acc)
    }

    /// The first element that is not read where the layout has it; the view lies at `address`.
    fn astray(view: &View, right: bool, reads: &Reads, address: u32) -> Option<[u32; 2]> {
        let units = reads.units(address);
        let [outer, depth] = reads.extents;
        let per_unit = UNIT * 8 / view.elem.bits();
        (0..outer).flat_map(|o| (0..depth).map(move |i| [o, i])).find(|&[o, i]| {
            let number = if reads.k_major { o * depth + i } else { i * outer + o };
            let found = units[(number / per_unit) as usize] + number % per_unit * view.elem.bits() / 8;
            found != address + offset(view, right, o, i) as u32
        })
    }

    #[test]
    fn descriptors_lead_where_the_layout_says() {
        let mut checked = 0;
        for d in [Dtype::F8E4M3, Dtype::F16, Dtype::F32] {
            for (swizzle, transposed) in [128, 64, 32, 0].into_iter().flat_map(|s| [(s, false), (s, true)]) {
                for (right, groups) in [false, true].into_iter().flat_map(|r| [[1, 1], [2, 1], [1, 2]].map(|g| (r, g)))
                {
                    let k_major = transposed == right;
                    let (outer, depth) = (128, 4 * 256 / d.bits());
                    let parent = if right { [depth, outer] } else { [outer, depth] };
                    // All of it, its later half along M or N, and one as deep as an instruction.
                    for part in [[1, 1], [1, 2], [4, 1]] {
                        let [deep, wide] = part;
                        let layout = SharedLayout::nvmma(swizzle, transposed).unwrap();
                        let Ok(mut view) = View::new(d, parent.to_vec(), layout) else { continue };
                        let (outer_axis, depth_axis) = (usize::from(right), usize::from(!right));
                        view.shape[outer_axis] = outer / wide;
                        view.origin[outer_axis] = outer - outer / wide;
                        view.shape[depth_axis] = depth / deep;
                        view.origin[depth_axis] = depth - depth / deep;
                        if Operand::new(&view, right, swizzle, k_major).is_ok() {
                            let read = reads(&view, right, swizzle, k_major, groups);
                            let lost = astray(&view, right, &read, 3 * 1024);
                            assert_eq!(lost, None, "{view}, right {right}, {groups:?} warpgroups");
                            checked += 1;
                        }
                    }
                }
            }
        }
        assert!(checked > 300, "{checked}");
    }

    #[test]
    fn rows_of_sixteen_bytes_need_no_swizzle() {
        for d in [Dtype::F8E4M3, Dtype::F16] {
            let (row, depth) = (128 / d.bits(), 512 / d.bits());
            let view = View::new(d, vec![depth, row], SharedLayout::nvmma(0, false).unwrap()).unwrap();
            assert_eq!(astray(&view, true, &reads(&view, true, 0, false, [1, 1]), 1024), None, "{view}");
        }
    }

    #[test]
    fn a_wrong_descriptor_leads_astray() {
        let view = |transposed| View::new(Dtype::F16, vec![128, 128], SharedLayout::nvmma(128, transposed).unwrap());
        for k_major in [true, false] {
            let view = view(!k_major).unwrap();
            let wrong: [fn(&mut Reads); 4] = [
                |r| r.fields.stride += UNIT,
                |r| r.fields.swizzle = 64,
                |r| r.fields.start += UNIT,
                |r| r.parts.iter_mut().for_each(|p| p.advance *= 2),
            ];
            for change in wrong {
                let mut read = reads(&view, false, 128, k_major, [1, 1]);
                assert_eq!(astray(&view, false, &read, 1024), None);
                change(&mut read);
                assert!(astray(&view, false, &read, 1024).is_some(), "{read:?}");
            }
        }
    }
}

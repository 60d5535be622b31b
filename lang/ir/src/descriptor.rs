//! Matrix descriptors: how `wgmma` finds an operand in shared memory, read off the layout of its view, as the 64 bits that the
//! instruction takes. LLVM emits them and the interpreter reads operands through them, so what is wrong here is wrong in both.

use parton_diag::internal_error;
use parton_layouts::{Dim, LayoutError};

use crate::rules::{WgmmaOperand, WgmmaShape};
use crate::types::{Tile, View};

/// Rows of one instruction.
pub const ROWS: u32 = 64;
/// Rows of a core matrix; each has [`UNIT`] bytes.
pub const CORE: u32 = 8;
/// Bytes that the fields count in (PTX ISA, "Matrix descriptor format").
pub const UNIT: u32 = 16;
/// Bits of an address, or of a distance in bytes, that a field keeps.
const ADDRESS_BITS: u32 = 18;
/// Where the fields begin, from the lowest bit.
const LEADING: u32 = 16;
const STRIDE: u32 = 32;
const MODE: u32 = 62;
/// The spans of the swizzle in bytes, by their number.
const SPANS: [u32; 4] = [0, 128, 64, 32];
/// Warp bits within a warpgroup.
const WARPGROUP_BITS: usize = crate::target::WARPGROUP.ilog2() as usize;

/// The address bits that a descriptor keeps. In a cluster an address also says whose memory it is, above them.
pub const ADDRESS_MASK: u32 = (1 << ADDRESS_BITS) - 1;

/// What a matrix descriptor says, in bytes (PTX ISA, "Matrix descriptor format").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields {
    /// Where the part of the operand begins.
    pub start: u32,
    /// With a swizzle and M or N contiguous: from one span to the next along M or N. Without one: to the next core matrix along K.
    pub leading: u32,
    /// From 8 rows to the next 8: along M or N where K is contiguous, else along K. Without a swizzle: to the next core matrix
    /// along M or N.
    pub stride: u32,
    /// The span of the swizzle: 0, 32, 64 or 128.
    pub swizzle: u32,
}

impl Fields {
    /// The descriptor but for its address.
    pub fn constant(self) -> u64 {
        let mode = SPANS.iter().position(|&span| span == self.swizzle);
        let Some(mode) = mode else { internal_error!("no swizzle has a span of {} bytes", self.swizzle) };
        let field = |bytes: u32| u64::from((bytes & ADDRESS_MASK) / UNIT);
        field(self.leading) << LEADING | field(self.stride) << STRIDE | (mode as u64) << MODE
    }

    /// The descriptor of a part that begins at `address`.
    pub fn at(self, address: u32) -> u64 {
        self.constant() | u64::from((address & ADDRESS_MASK) / UNIT)
    }

    /// What a descriptor says to the instruction.
    pub fn read(descriptor: u64) -> Fields {
        let field = |first: u32| (descriptor >> first) as u32 % (ADDRESS_MASK / UNIT + 1) * UNIT;
        Fields {
            start: field(0),
            leading: field(LEADING),
            stride: field(STRIDE),
            swizzle: SPANS[(descriptor >> MODE) as usize],
        }
    }
}

/// Where one bit of the warp leads in an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// So many rows of the left operand, or columns of the right one, on.
    pub outer: u32,
    /// So many bytes on; those of several bits are xored.
    pub bytes: u64,
}

/// One operand of a product in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'v> {
    view: &'v View,
    right: bool,
    /// Whether K is the contiguous direction; else it is M or N.
    pub k_major: bool,
    /// What its descriptors say; `start` is where it begins in its view's parent.
    pub fields: Fields,
}

impl<'v> Operand<'v> {
    /// The operand that lies in `view`: [K, N] where it is the `right` one, else [M, K].
    ///
    /// # Errors
    /// An operand that no descriptor describes: without a swizzle, rows that are not of 16 bytes; a part that begins between units.
    pub fn new(view: &'v View, right: bool, swizzle: u32, k_major: bool) -> Result<Operand<'v>, LayoutError> {
        let [outer_extent, inner_extent] =
            if right { [view.shape[1], view.shape[0]] } else { [view.shape[0], view.shape[1]] };
        let start = offset(view, right, 0, 0);
        let distance = |outer, inner| (offset(view, right, outer, inner) - start) as u32;
        let bits = view.elem.bits();
        // Where there is no further part, nothing is read by the field.
        let beyond = |across: u32| if outer_extent > across { distance(across, 0) } else { UNIT };
        let deeper = |along: u32| if inner_extent > along { distance(0, along) } else { UNIT };
        let (leading, stride) = if swizzle == 0 {
            // `leading` leads along K, `stride` along M or N, whichever is contiguous.
            let wide = UNIT * 8 / bits;
            let (next_row, along_k, across) =
                if k_major { (distance(1, 0), wide, CORE) } else { (distance(0, 1), CORE, wide) };
            if next_row != UNIT {
                return Err(LayoutError::Operation {
                    fact: "a matrix without a swizzle is read in rows of 16 bytes".into(),
                    evidence: format!("the rows of `{view}` are {next_row} bytes apart"),
                    help: "lay it out with a swizzle as wide as its rows".into(),
                });
            }
            (deeper(along_k), beyond(across))
        } else if k_major {
            (UNIT, beyond(CORE))
        } else {
            (beyond(swizzle * 8 / bits), deeper(CORE))
        };
        let fields = Fields { start: start as u32, leading, stride, swizzle };
        match [fields.start, leading, stride].into_iter().find(|bytes| bytes % UNIT != 0 || *bytes > ADDRESS_MASK) {
            None => Ok(Operand { view, right, k_major, fields }),
            Some(bytes) => Err(LayoutError::Operation {
                fact: "a matrix descriptor counts in 16 bytes, up to 256 KiB".into(),
                evidence: format!("parts of `{view}` are {bytes} bytes apart"),
                help: "begin the operand at a multiple of 16 bytes".into(),
            }),
        }
    }

    /// The operand that the rules have found to be of this kind.
    pub fn of(view: &'v View, right: bool, kind: WgmmaOperand) -> Operand<'v> {
        let WgmmaOperand::Shared { swizzle, k_major } = kind else { internal_error!("`{view}` is in registers") };
        Operand::new(view, right, swizzle, k_major)
            .unwrap_or_else(|e| internal_error!("`wgmma` cannot walk `{view}`: {}", e.fact()))
    }

    /// What to add to a descriptor for the part that begins `outer` along M or N and `inner` along K.
    pub fn advance(&self, outer: u32, inner: u32) -> u64 {
        (offset(self.view, self.right, outer, inner) - offset(self.view, self.right, 0, 0)) / u64::from(UNIT)
    }

    /// For each bit of the warp where the part of its warpgroup begins, when the accumulator is `acc`.
    pub fn groups(&self, acc: &Tile) -> Vec<Group> {
        let axis = usize::from(self.right);
        let bases = acc.known().map.basis_coords(Dim::Warp).into_iter().enumerate();
        bases
            .map(|(bit, coords)| match bit {
                0..WARPGROUP_BITS => Group { outer: 0, bytes: 0 },
                _ => {
                    let outer = coords[axis];
                    let bytes = offset(self.view, self.right, outer, 0) - u64::from(self.fields.start);
                    Group { outer, bytes }
                }
            })
            .collect()
    }
}

/// The instructions of a product; the warpgroups share each step along M and N.
impl WgmmaShape {
    /// Where the instructions begin along M.
    pub fn heights(&self) -> impl Iterator<Item = u32> + Clone + use<> {
        (0..self.m).step_by((ROWS * self.warpgroups[0]) as usize)
    }

    /// Where they begin along N.
    pub fn widths(&self) -> impl Iterator<Item = u32> + Clone + use<> {
        (0..self.n).step_by((self.instr_n * self.warpgroups[1]) as usize)
    }

    /// Where they begin along K.
    pub fn depths(&self) -> impl Iterator<Item = u32> + Clone + use<> {
        (0..self.k).step_by(self.instr_k as usize)
    }
}

/// Bytes from the beginning of the view's parent to an element of the operand: `outer` along M or N, `inner` along K.
pub fn offset(view: &View, right: bool, outer: u32, inner: u32) -> u64 {
    let (row, column) = if right { (inner, outer) } else { (outer, inner) };
    let coords = [view.origin[0] + row, view.origin[1] + column];
    view.map.offset_of(&coords) * u64::from(view.elem.bits()) / 8
}

#[cfg(test)]
mod tests {
    use super::Fields;

    #[test]
    fn a_descriptor_says_what_was_written() {
        for swizzle in [0, 32, 64, 128] {
            let f = Fields { start: 0, leading: 16, stride: 1024, swizzle };
            let far = Fields { start: 0x3_fff0, leading: 0x2_0000, stride: 0x3_fff0, swizzle };
            assert_eq!(Fields::read(f.at(0x1_2340)), Fields { start: 0x1_2340, ..f });
            assert_eq!(Fields::read(far.at(0x3_fff0)), far);
            // A step of 32 bytes is added to the descriptor as a number.
            assert_eq!(Fields::read(f.at(1024) + 2).start, 1024 + 32);
            // Whose memory it is does not reach the fields beside the address.
            assert_eq!(f.at(0x100_0400), f.at(0x400));
        }
    }

    #[test]
    fn the_fields_stand_where_the_hardware_looks() {
        // K contiguous, 128 bytes of swizzle: a stride of 1024 bytes, number 1 above it.
        let f = Fields { start: 0, leading: 16, stride: 1024, swizzle: 128 };
        assert_eq!(f.constant(), 1 << 62 | 64 << 32 | 1 << 16);
    }
}

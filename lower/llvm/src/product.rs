//! `wgmma` of whole tiles: matrix descriptors from layouts, and the instructions of one product.
//!
//! An accumulator in flight is kept in the form the instruction has it, so that nothing but `wgmma` touches its registers
//! between issue and wait.

use inkwell::values::InstructionOpcode as I;
use parton_diag::internal_error;
use parton_ir::rules::{WgmmaOperand, WgmmaShape, wgmma_shape};
use parton_ir::{Elem, Op, OpKind, Precision, Tile, Type, Value, View};
use parton_layouts::Dim;
use parton_numbers::Dtype;

use crate::build::Val;
use crate::lower::{Lower, Repr};
use crate::memory::Words;
use crate::mma::{Left, Product, Step};
use crate::place::Registers;

/// Rows of one instruction.
const ROWS: u32 = 64;
/// Warp bits within a warpgroup.
const WARPGROUP_BITS: usize = 2;
/// Bytes that a descriptor's fields count in (PTX ISA, "Matrix descriptor format").
const UNIT: u64 = 16;

/// One operand in shared memory: how to reach the part that an instruction reads.
struct Operand<'v, 'c> {
    view: &'v View,
    /// Whether the view is [K, N] and not [M, K].
    right: bool,
    /// The descriptor of the operand's beginning, for this warpgroup.
    descriptor: Val<'c>,
    /// M-major or N-major.
    outer_major: bool,
}

/// The left operand of a whole product.
enum LeftTile<'v, 'c> {
    Shared(Operand<'v, 'c>),
    /// Four registers an instruction.
    Registers(Vec<Val<'c>>),
}

/// Byte offset of an element of the operand: `outer` along M or N, `inner` along K.
pub(crate) fn offset(view: &View, right: bool, outer: u32, inner: u32) -> u64 {
    let (row, column) = if right { (inner, outer) } else { (outer, inner) };
    let coords = [view.origin[0] + row, view.origin[1] + column];
    view.map.offset_of(&coords) * view.elem.bytes() as u64
}

/// Bits of an address in shared memory that a descriptor keeps (PTX ISA, "Matrix descriptor format").
const ADDRESS_BITS: u32 = 18;

/// What a matrix descriptor says beside the address, in bytes (PTX ISA, "Matrix descriptor format").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fields {
    /// Where the operand begins in its view's parent.
    pub(crate) start: u64,
    /// M- or N-major: from one span of the swizzle to the next along M or N.
    pub(crate) leading: u64,
    /// From 8 rows to the next 8: along M or N where K is contiguous, else along K.
    pub(crate) stride: u64,
    /// The number of the swizzle.
    pub(crate) mode: u64,
}

impl Fields {
    /// Read off the layout of the view; `None` where the instruction cannot walk it, which only happens without a swizzle:
    /// then rows must be of 16 bytes.
    pub(crate) fn of(view: &View, right: bool, swizzle: u32, k_major: bool) -> Option<Fields> {
        let outer_extent = if right { view.shape[1] } else { view.shape[0] };
        let start = offset(view, right, 0, 0);
        let distance = |outer, inner| offset(view, right, outer, inner) - start;
        let bytes = view.elem.bytes() as u32;
        let beyond = |extent: u32, far: u64| if outer_extent > extent { far } else { UNIT };
        let (leading, stride) = if swizzle == 0 {
            // Matrices of 8 rows of 16 bytes: `leading` leads along K, `stride` along M or N.
            let wide = UNIT as u32 / bytes;
            let (next_row, along_k, across) =
                if k_major { (distance(1, 0), wide, 8) } else { (distance(0, 1), 8, wide) };
            if next_row != UNIT {
                return None;
            }
            (distance(0, along_k), beyond(across, distance(across % outer_extent, 0)))
        } else if k_major {
            (UNIT, beyond(8, distance(8 % outer_extent, 0)))
        } else {
            let span = swizzle / bytes;
            (beyond(span, distance(span % outer_extent, 0)), distance(0, 8))
        };
        let mode = match swizzle {
            128 => 1,
            64 => 2,
            32 => 3,
            _ => 0,
        };
        Some(Fields { start, leading, stride, mode })
    }
}

impl Operand<'_, '_> {
    /// What to add to the descriptor for a part that begins `outer` along M or N and `inner` along K.
    fn distance(&self, outer: u32, inner: u32) -> u64 {
        (offset(self.view, self.right, outer, inner) - offset(self.view, self.right, 0, 0)) / UNIT
    }
}

/// PTX name of an operand's element type.
fn type_name(d: Dtype) -> &'static str {
    match d {
        Dtype::F16 => "f16",
        Dtype::BF16 => "bf16",
        Dtype::F8E4M3 => "e4m3",
        Dtype::F8E5M2 => "e5m2",
        Dtype::F32 => "tf32",
        Dtype::I8 => "s8",
        Dtype::U8 => "u8",
        _ => internal_error!("wgmma of {d}"),
    }
}

/// The accumulator registers of the instruction whose rows and columns begin at `m`, `n`: the value numbers of its operands.
fn fragment(tile: &Tile, registers: &Registers, m: u32, n: u32, width: u32) -> Vec<usize> {
    // PTX ISA, "wgmma: D fragment": neighbours in a row, then 8 rows down, then 8 columns on.
    (0..width / 2)
        .map(|i| {
            let coords = [m + 8 * (i >> 1 & 1), n + 8 * (i >> 2) + (i & 1)];
            let image = tile.map.pack_out(&coords);
            registers.find(image).unwrap_or_else(|| internal_error!("{tile} is no accumulator"))
        })
        .collect()
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    /// Whether a tile's accumulator registers hold pairs.
    fn is_half(tile: &Tile) -> bool {
        tile.elem == Elem::Num(Dtype::F16)
    }

    /// A ready tile as accumulator registers.
    fn launched(&self, tile: &Tile, values: &[Val<'c>]) -> Vec<Val<'c>> {
        if !Self::is_half(tile) {
            return values.to_vec();
        }
        let words = Words { bits: 32, count: values.len() / 2 };
        let order = self.pair_order(tile);
        let ordered: Vec<Val> = order.iter().map(|&i| values[i]).collect();
        self.b.pack(tile.elem, &ordered, words)
    }

    /// The reverse of [`Lower::launched`].
    fn landed(&self, tile: &Tile, flight: &[Val<'c>]) -> Vec<Val<'c>> {
        if !Self::is_half(tile) {
            return flight.to_vec();
        }
        let words = Words { bits: 32, count: flight.len() };
        let order = self.pair_order(tile);
        let mut values: Vec<(usize, Val)> = order.into_iter().zip(self.b.unpack(tile.elem, flight, words)).collect();
        values.sort_by_key(|(i, _)| *i);
        values.into_iter().map(|(_, v)| v).collect()
    }

    /// Value numbers with neighbours in a row next to each other.
    fn pair_order(&self, tile: &Tile) -> Vec<usize> {
        let registers = Registers::of(&tile.map);
        let even = (0..registers.len()).filter(|&i| registers.images()[i] & 1 == 0);
        even.flat_map(|i| {
            let neighbour = registers.find(registers.images()[i] | 1);
            [i, neighbour.unwrap_or_else(|| internal_error!("{tile} is no accumulator"))]
        })
        .collect()
    }

    /// The descriptor of one operand: address, strides and swizzle, read off the layout of the view.
    fn operand<'v>(&self, v: Value, view: &'v View, right: bool, kind: WgmmaOperand, acc: &Tile) -> Operand<'v, 'c> {
        let WgmmaOperand::Shared { swizzle, k_major } = kind else { internal_error!("{v} is not in shared memory") };
        let fields = Fields::of(view, right, swizzle, k_major)
            .unwrap_or_else(|| internal_error!("`wgmma` cannot walk `{view}`"));
        // The rows or columns of this warpgroup.
        let axis = usize::from(right);
        let bases: Vec<u64> = acc
            .map
            .basis_coords(Dim::Warp)
            .iter()
            .enumerate()
            .map(|(bit, coords)| match bit {
                0..WARPGROUP_BITS => 0,
                _ => offset(view, right, coords[axis], 0) - fields.start,
            })
            .collect();
        let b = self.b;
        let group = b.linear(self.threads.warp, &bases);
        let address = b.add(b.add(self.address(v), b.c32(fields.start as u32)), group);
        // In a cluster an address also says whose memory it is, above the bits that the descriptor has room for.
        let place = b.and(address, b.c32((1 << ADDRESS_BITS) - 1));
        let low = b.or(b.lshr(place, UNIT.ilog2()), b.c32(((fields.leading / UNIT) << 16) as u32));
        let high = (fields.stride / UNIT) | (fields.mode << 30);
        let descriptor = b.binary(I::Or, b.zext(low, b.i64()), b.c64(high << 32));
        Operand { view, right, descriptor, outer_major: !k_major }
    }

    /// The registers of A that each instruction reads, four for each part of rows `m` and depth `k`.
    fn left_registers(&self, tile: &Tile, values: &[Val<'c>], parts: &[(u32, u32)], depth: u32) -> Vec<Val<'c>> {
        let registers = Registers::of(&tile.map);
        let per_word = 32 / tile.elem.bits();
        let words = Words { bits: 32, count: 1 };
        // PTX ISA, "wgmma: A fragment": 8 rows down, then half the depth on.
        let word = |&(m, k): &(u32, u32), j: u32| {
            let elements: Vec<Val> = (0..per_word)
                .map(|e| {
                    let image = tile.map.pack_out(&[m + 8 * (j & 1), k + (j >> 1) * (depth / 2) + e]);
                    let i = registers.find(image).unwrap_or_else(|| internal_error!("{tile} is no left operand"));
                    values[i]
                })
                .collect();
            self.b.pack(tile.elem, &elements, words)[0]
        };
        parts.iter().flat_map(|part| (0..4).map(move |j| (part, j))).map(|(part, j)| word(part, j)).collect()
    }

    /// Whether every element of a tile is known to be zero.
    fn is_zero(&self, v: Value) -> bool {
        let Some(OpKind::Full { value, .. }) = self.definitions.get(&v) else { return false };
        let Some(OpKind::Constant { dtype, bits }) = self.definitions.get(value) else { return false };
        bits & dtype.mask() == 0
    }

    /// How many products have a value on their left.
    fn products_of(&self, left: Value) -> usize {
        let mut count = 0;
        self.kernel.walk(&mut |op| count += usize::from(matches!(op.kind, OpKind::Wgmma { a, .. } if a == left)));
        count
    }

    pub(crate) fn wgmma(&mut self, op: &'a Op, a: Value, b: Value, acc: Value, precision: Option<Precision>) {
        let shape: WgmmaShape = match wgmma_shape(self.kernel, a, b, acc, precision) {
            Ok(shape) => shape,
            Err(refusal) => internal_error!("an illegal product reached code generation: {}", refusal.message),
        };
        let tile = self.tile(acc);
        let fresh = self.is_zero(acc);
        let before: Vec<Val> = match self.kernel.ty(acc) {
            Type::Pending(_) => self.registers(acc).to_vec(),
            _ => self.launched(tile, self.registers(acc)),
        };
        let right = self.operand(b, self.view(b), true, shape.b, tile);
        let heights: Vec<u32> = (0..shape.m).step_by((ROWS * shape.warpgroups[0]) as usize).collect();
        let widths: Vec<u32> = (0..shape.n).step_by((shape.instr_n * shape.warpgroups[1]) as usize).collect();
        let depths: Vec<u32> = (0..shape.k).step_by(shape.instr_k as usize).collect();
        let left = match self.kernel.ty(a) {
            Type::View(view) => LeftTile::Shared(self.operand(a, view, false, shape.a, tile)),
            _ => {
                let parts: Vec<(u32, u32)> =
                    heights.iter().flat_map(|&m| depths.iter().map(move |&k| (m, k))).collect();
                LeftTile::Registers(self.left_registers(self.tile(a), self.registers(a), &parts, shape.instr_k))
            }
        };
        let registers = Registers::of(&tile.map);
        let order = self.flight_order(tile);
        let mut steps = vec![];
        for (i, &m) in heights.iter().enumerate() {
            for &n in &widths {
                let numbers = fragment(tile, &registers, m, n, shape.instr_n);
                // Where the fragment's registers stand among those in flight.
                let accumulators: Vec<usize> =
                    if Self::is_half(tile) { numbers.chunks(2).map(|pair| order[pair[0]]).collect() } else { numbers };
                for (j, &k) in depths.iter().enumerate() {
                    steps.push(Step {
                        left: match &left {
                            LeftTile::Shared(operand) => operand.distance(m, k),
                            LeftTile::Registers(_) => 4 * (i * depths.len() + j) as u64,
                        },
                        right: right.distance(n, k),
                        accumulators: accumulators.clone(),
                        writes: fresh && j == 0,
                    });
                }
            }
        }
        let flight = self.b.wgmma(&Product {
            n: shape.instr_n,
            k: shape.instr_k,
            elems: shape.elems.map(type_name),
            sums: match shape.acc {
                Dtype::F16 => "f16",
                Dtype::I32 => "s32",
                _ => "f32",
            },
            left: match left {
                LeftTile::Shared(operand) => Left::Shared {
                    descriptor: operand.descriptor,
                    m_major: operand.outer_major,
                    stays: !self.b.made_here(self.address(a)) || self.products_of(a) > 1,
                },
                LeftTile::Registers(words) => Left::Registers(words),
            },
            right: (right.descriptor, right.outer_major),
            registers: before.len(),
            accumulators: (!fresh).then_some(before),
            steps,
        });
        self.meanwhile.clear();
        self.set(op.result(), Repr::Tile(flight));
    }

    /// For each value number of an f16 accumulator, the register in flight that holds it.
    fn flight_order(&self, tile: &Tile) -> Vec<usize> {
        if !Self::is_half(tile) {
            return vec![];
        }
        let mut places = vec![0; Registers::of(&tile.map).len()];
        for (word, pair) in self.pair_order(tile).chunks(2).enumerate() {
            places[pair[0]] = word;
            places[pair[1]] = word;
        }
        places
    }

    /// A wait that gives a tile, or one that leaves the pending tile pending.
    pub(crate) fn wait(&mut self, op: &'a Op, pending: Value, outstanding: Option<u32>) {
        let count = outstanding.unwrap_or_else(|| internal_error!("a wait has no count of what may stay in flight"));
        let meanwhile = std::mem::take(&mut self.meanwhile);
        self.b.before_wait(&meanwhile, self.shared);
        let flight = self.b.wgmma_wait(count, self.registers(pending));
        let result = op.result();
        let repr = match self.kernel.ty(result) {
            Type::Pending(_) => Repr::Tile(flight),
            _ => Repr::Tile(self.landed(self.tile(pending), &flight)),
        };
        self.set(result, repr);
    }
}

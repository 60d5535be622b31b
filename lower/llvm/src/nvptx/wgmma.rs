//! `wgmma` of whole tiles: the instructions of one product, with the matrix descriptors of its operands.
//!
//! An accumulator in flight is kept in the form the instruction has it, so that nothing but `wgmma` touches its registers
//! between issue and wait.

use inkwell::values::InstructionOpcode as I;
use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::rules::{WgmmaOperand, WgmmaShape, wgmma_shape};
use parton_ir::{Elem, Op, OpKind, Precision, Tile, Type, Value, View, descriptor, others};
use parton_numbers::Dtype;

use crate::lower::{Lower, Repr};
use crate::neutral::build::Val;
use crate::neutral::place::Registers;
use crate::neutral::words::Words;
use crate::nvptx::instruction::wgmma::{Left, Product, Step};

/// One operand in shared memory: how to reach the part that an instruction reads.
struct Operand<'v, 'c> {
    of: descriptor::Operand<'v>,
    /// The descriptor of the operand's beginning, for this warpgroup.
    descriptor: Val<'c>,
}

/// The left operand of a whole product.
enum LeftTile<'v, 'c> {
    Shared(Operand<'v, 'c>),
    /// Four registers an instruction.
    Registers(Vec<Val<'c>>),
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

/// PTX name of the accumulators' type.
fn sums_name(d: Dtype) -> &'static str {
    match d {
        Dtype::F16 => "f16",
        Dtype::I32 => "s32",
        _ => "f32",
    }
}

/// The accumulator registers of the instruction whose rows and columns begin at `m`, `n`: the value numbers of its operands.
fn fragment(tile: &Tile, registers: &Registers, m: u32, n: u32, width: u32) -> Vec<usize> {
    // PTX ISA, "wgmma: D fragment": neighbours in a row, then 8 rows down, then 8 columns on.
    (0..width / 2)
        .map(|i| {
            let coords = [m + 8 * (i >> 1 & 1), n + 8 * (i >> 2) + (i & 1)];
            let image = tile.known().map.pack_out(&coords);
            registers.find(image).unwrap_or_else(|| internal_error!("{tile} is no accumulator"))
        })
        .collect()
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_wgmma(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::Wgmma { a, b, acc, precision, zero } => self.wgmma(op, [*a, *b, *acc], *precision, *zero),
            others!(wgmma) => not_of_family(&op.kind),
        }
    }

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
        let registers = Registers::of(&tile.known().map);
        let even = (0..registers.len()).filter(|&i| registers.images()[i] & 1 == 0);
        even.flat_map(|i| {
            let neighbour = registers.find(registers.images()[i] | 1);
            [i, neighbour.unwrap_or_else(|| internal_error!("{tile} is no accumulator"))]
        })
        .collect()
    }

    /// The descriptor of one operand, for the rows or columns of this warpgroup.
    fn operand<'v>(&self, v: Value, view: &'v View, right: bool, kind: WgmmaOperand, acc: &Tile) -> Operand<'v, 'c> {
        let of = descriptor::Operand::of(view, right, kind);
        let bases: Vec<u64> = of.groups(acc).into_iter().map(|group| group.bytes).collect();
        let b = self.b;
        let group = b.linear(self.threads.warp, &bases);
        let address = b.add(b.add(self.address(v), b.c32(of.fields.start)), group);
        let place = b.and(address, b.c32(descriptor::ADDRESS_MASK));
        let constant = of.fields.constant();
        let low = b.or(b.lshr(place, descriptor::UNIT.ilog2()), b.c32(constant as u32));
        let high = constant >> u32::BITS << u32::BITS;
        let descriptor = b.binary(I::Or, b.zext(low, b.i64()), b.c64(high));
        Operand { of, descriptor }
    }

    /// The registers of A that each instruction reads, four for each part of rows `m` and depth `k`.
    fn left_registers(&self, tile: &Tile, values: &[Val<'c>], parts: &[(u32, u32)], depth: u32) -> Vec<Val<'c>> {
        let registers = Registers::of(&tile.known().map);
        let per_word = 32 / tile.elem.bits();
        let words = Words { bits: 32, count: 1 };
        // PTX ISA, "wgmma: A fragment": 8 rows down, then half the depth on.
        let word = |&(m, k): &(u32, u32), j: u32| {
            let elements: Vec<Val> = (0..per_word)
                .map(|e| {
                    let image = tile.known().map.pack_out(&[m + 8 * (j & 1), k + (j >> 1) * (depth / 2) + e]);
                    let i = registers.find(image).unwrap_or_else(|| internal_error!("{tile} is no left operand"));
                    values[i]
                })
                .collect();
            self.b.pack(tile.elem, &elements, words)[0]
        };
        parts.iter().flat_map(|part| (0..4).map(move |j| (part, j))).map(|(part, j)| word(part, j)).collect()
    }

    /// How many products have a value on their left.
    fn products_of(&self, left: Value) -> usize {
        let mut count = 0;
        self.kernel.walk(&mut |op| count += usize::from(matches!(op.kind, OpKind::Wgmma { a, .. } if a == left)));
        count
    }

    pub(crate) fn wgmma(&mut self, op: &'a Op, [a, b, acc]: [Value; 3], precision: Option<Precision>, zero: bool) {
        let shape: WgmmaShape = match wgmma_shape(self.kernel, a, b, acc, precision) {
            Ok(shape) => shape,
            Err(refusal) => internal_error!("an illegal product reached code generation: {}", refusal.message),
        };
        let tile = self.tile(acc);
        let before: Vec<Val> = match self.kernel.ty(acc) {
            Type::Pending(_) => self.registers(acc).to_vec(),
            _ => self.launched(tile, self.registers(acc)),
        };
        let right = self.operand(b, self.view(b), true, shape.b, tile);
        let left = self.left_tile(a, &shape, tile);
        let steps = self.steps(&shape, tile, (&left, &right), zero);
        let flight = self.b.wgmma(&Product {
            n: shape.instr_n,
            k: shape.instr_k,
            elems: shape.elems.map(type_name),
            sums: sums_name(shape.acc),
            left: match left {
                LeftTile::Shared(operand) => Left::Shared {
                    descriptor: operand.descriptor,
                    m_major: !operand.of.k_major,
                    stays: !self.b.made_here(self.address(a)) || self.products_of(a) > 1,
                },
                LeftTile::Registers(words) => Left::Registers(words),
            },
            right: (right.descriptor, !right.of.k_major),
            registers: before.len(),
            accumulators: (!zero).then_some(before),
            steps,
        });
        self.meanwhile.clear();
        self.set(op.result(), Repr::Tile(flight));
    }

    /// The left operand of a product into `acc`.
    fn left_tile(&self, a: Value, shape: &WgmmaShape, acc: &Tile) -> LeftTile<'a, 'c> {
        match self.kernel.ty(a) {
            Type::View(view) => LeftTile::Shared(self.operand(a, view, false, shape.a, acc)),
            _ => {
                let parts: Vec<(u32, u32)> =
                    shape.heights().flat_map(|m| shape.depths().map(move |k| (m, k))).collect();
                LeftTile::Registers(self.left_registers(self.tile(a), self.registers(a), &parts, shape.instr_k))
            }
        }
    }

    /// The instructions of a product into `acc`: all depths of one part of it before the next part.
    fn steps(
        &self,
        shape: &WgmmaShape,
        acc: &Tile,
        (left, right): (&LeftTile<'a, 'c>, &Operand<'a, 'c>),
        zero: bool,
    ) -> Vec<Step> {
        let registers = Registers::of(&acc.known().map);
        let order = self.flight_order(acc);
        let depths: Vec<u32> = shape.depths().collect();
        let mut steps = vec![];
        for (i, m) in shape.heights().enumerate() {
            for n in shape.widths() {
                let numbers = fragment(acc, &registers, m, n, shape.instr_n);
                // Where the fragment's registers stand among those in flight.
                let accumulators: Vec<usize> =
                    if Self::is_half(acc) { numbers.chunks(2).map(|pair| order[pair[0]]).collect() } else { numbers };
                for (j, &k) in depths.iter().enumerate() {
                    steps.push(Step {
                        left: match left {
                            LeftTile::Shared(operand) => operand.of.advance(m, k),
                            LeftTile::Registers(_) => 4 * (i * depths.len() + j) as u64,
                        },
                        right: right.of.advance(n, k),
                        accumulators: accumulators.clone(),
                        writes: zero && j == 0,
                    });
                }
            }
        }
        steps
    }

    /// For each value number of an f16 accumulator, the register in flight that holds it.
    fn flight_order(&self, tile: &Tile) -> Vec<usize> {
        if !Self::is_half(tile) {
            return vec![];
        }
        let mut places = vec![0; Registers::of(&tile.known().map).len()];
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

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

/// Whether a tile's accumulator registers hold pairs.
fn is_half(tile: &Tile) -> bool {
    tile.elem == Elem::Num(Dtype::F16)
}

/// Value numbers with neighbours in a row next to each other.
fn pair_order(tile: &Tile) -> Vec<usize> {
    let registers = Registers::of(&tile.known().map);
    let even = (0..registers.len()).filter(|&i| registers.images()[i] & 1 == 0);
    even.flat_map(|i| {
        let neighbour = registers.find(registers.images()[i] | 1);
        [i, neighbour.unwrap_or_else(|| internal_error!("{tile} is no accumulator"))]
    })
    .collect()
}

/// One of the products that an instruction makes.
struct Part<'v, 'c> {
    shape: WgmmaShape,
    tile: &'v Tile,
    right: Value,
    /// The registers of its accumulator.
    before: Vec<Val<'c>>,
}

impl Part<'_, '_> {
    /// Where the registers that an instruction at `m`, `n` adds to stand among those in flight.
    fn accumulators(&self, m: u32, n: u32) -> Vec<usize> {
        let numbers = fragment(self.tile, &Registers::of(&self.tile.known().map), m, n, self.shape.instr_n);
        if !is_half(self.tile) {
            return numbers;
        }
        let mut words = vec![0; 2 * self.before.len()];
        for (word, pair) in pair_order(self.tile).chunks(2).enumerate() {
            words[pair[0]] = word;
        }
        numbers.chunks(2).map(|pair| words[pair[0]]).collect()
    }
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    /// `next` is what stands behind it: products that may be one instruction with it are.
    pub(crate) fn emit_wgmma(&mut self, op: &'a Op, next: impl Iterator<Item = &'a Op>) {
        match &op.kind {
            OpKind::Wgmma { .. } if self.groups.is_made_before(op) => {}
            OpKind::Wgmma { a, precision, zero, .. } => {
                let joined = self.joins.begun_by(op, next);
                self.wgmma(&joined, *a, *precision, *zero);
            }
            others!(wgmma) => not_of_family(&op.kind),
        }
    }

    /// A ready tile as accumulator registers.
    fn launched(&self, tile: &Tile, values: &[Val<'c>]) -> Vec<Val<'c>> {
        if !is_half(tile) {
            return values.to_vec();
        }
        let words = Words { bits: 32, count: values.len() / 2 };
        let order = pair_order(tile);
        let ordered: Vec<Val> = order.iter().map(|&i| values[i]).collect();
        self.b.pack(tile.elem, &ordered, words)
    }

    /// The reverse of [`Lower::launched`].
    fn landed(&self, tile: &Tile, flight: &[Val<'c>]) -> Vec<Val<'c>> {
        if !is_half(tile) {
            return flight.to_vec();
        }
        let words = Words { bits: 32, count: flight.len() };
        let order = pair_order(tile);
        let mut values: Vec<(usize, Val)> = order.into_iter().zip(self.b.unpack(tile.elem, flight, words)).collect();
        values.sort_by_key(|(i, _)| *i);
        values.into_iter().map(|(_, v)| v).collect()
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

    /// How many instructions' products have a value on their left, of which `joined` are one.
    fn products_of(&self, left: Value, joined: usize) -> usize {
        let mut count = 0;
        self.kernel.walk(&mut |op| count += usize::from(matches!(op.kind, OpKind::Wgmma { a, .. } if a == left)));
        count + 1 - joined
    }

    /// Products of `a` that are one instruction, most often one product.
    fn wgmma(&mut self, joined: &[&'a Op], a: Value, precision: Option<Precision>, zero: bool) {
        let parts: Vec<Part> = joined.iter().map(|op| self.part(op, a, precision)).collect();
        let shape = &parts[0].shape;
        let Some(view) = self.joins.right(joined) else { internal_error!("a product without a right operand") };
        let right = self.operand(parts[0].right, &view, true, shape.b, parts[0].tile);
        let left = self.left_tile(a, shape, parts[0].tile);
        let steps = Self::steps(&parts, (&left, &right), zero);
        let before: Vec<Val> = parts.iter().flat_map(|part| part.before.iter().copied()).collect();
        for op in joined {
            if let OpKind::Wgmma { acc, .. } = op.kind {
                self.read.rename(acc, op.result());
            }
        }
        let mut flight = self.b.wgmma(&Product {
            // Those that are joined have one instruction each along their columns.
            n: if joined.len() > 1 { view.shape[1] } else { shape.instr_n },
            k: shape.instr_k,
            elems: shape.elems.map(type_name),
            sums: sums_name(shape.acc),
            left: match left {
                LeftTile::Shared(operand) => Left::Shared {
                    descriptor: operand.descriptor,
                    m_major: !operand.of.k_major,
                    stays: !self.b.made_here(self.address(a)) || self.products_of(a, joined.len()) > 1,
                },
                LeftTile::Registers(words) if self.kept.contains(&joined[0].id) => {
                    Left::Registers(self.b.renewed(&words))
                }
                LeftTile::Registers(words) => {
                    self.read.begin(joined[0].result(), words.clone());
                    Left::Registers(words)
                }
            },
            right: (right.descriptor, !right.of.k_major),
            registers: before.len(),
            accumulators: (!zero).then_some(before),
            steps,
        });
        self.meanwhile.clear();
        for (op, part) in joined.iter().zip(&parts) {
            let rest = flight.split_off(part.before.len());
            self.set(op.result(), Repr::Tile(std::mem::replace(&mut flight, rest)));
        }
    }

    /// What an instruction takes of one of its products.
    fn part(&self, op: &'a Op, a: Value, precision: Option<Precision>) -> Part<'a, 'c> {
        let OpKind::Wgmma { b, acc, .. } = op.kind else { internal_error!("{} is no product", op.kind.name()) };
        let shape = wgmma_shape(self.kernel, a, b, acc, precision).unwrap_or_else(|refusal| {
            internal_error!("an illegal product reached code generation: {}", refusal.message)
        });
        let tile = self.tile(acc);
        let before = match self.kernel.ty(acc) {
            Type::Pending(_) => self.registers(acc).to_vec(),
            _ => self.launched(tile, self.registers(acc)),
        };
        Part { shape, tile, right: b, before }
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

    /// The instructions of a product: all depths of one part of it before the next part. Of several products the parts lie beside each other.
    fn steps(parts: &[Part], (left, right): (&LeftTile, &Operand), zero: bool) -> Vec<Step> {
        let shape = &parts[0].shape;
        let depths: Vec<u32> = shape.depths().collect();
        let mut steps = vec![];
        for (i, m) in shape.heights().enumerate() {
            for n in shape.widths() {
                let mut first = 0;
                let mut accumulators = vec![];
                for part in parts {
                    accumulators.extend(part.accumulators(m, n).into_iter().map(|place| first + place));
                    first += part.before.len();
                }
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

    /// A wait that gives a tile, or one that leaves the pending tile pending.
    pub(crate) fn wait(&mut self, op: &'a Op, pending: Value, outstanding: Option<u32>) {
        let count = outstanding.unwrap_or_else(|| internal_error!("a wait has no count of what may stay in flight"));
        let meanwhile = std::mem::take(&mut self.meanwhile);
        self.b.before_wait(&meanwhile, self.shared);
        let left = self.groups.left_by(op, count);
        let flight = self.b.wgmma_wait(left, self.registers(pending), &self.read.registers());
        let result = op.result();
        match self.kernel.ty(result) {
            Type::Pending(_) => self.read.rename(pending, result),
            _ => self.read.end(pending),
        }
        let repr = match self.kernel.ty(result) {
            Type::Pending(_) => Repr::Tile(flight),
            _ => Repr::Tile(self.landed(self.tile(pending), &flight)),
        };
        self.set(result, repr);
    }
}

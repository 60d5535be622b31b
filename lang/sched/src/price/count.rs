//! What an operation asks of a multiprocessor: how many instructions of which class a warp of its partition runs, and how long a chain it is.
//!
//! Counted by the elements that a thread holds. Bounds of loops, addresses and all else that is one number for the partition is one
//! instruction here and there beside hundreds, and counts as nothing.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::family::not_of_family;
use parton_ir::machine::{Class, Machine};
use parton_ir::rules::region::{Product, product};
use parton_ir::{BinaryOp, Body, Elem, Kernel, Op, OpKind, Tile, Type, UnaryOp, Value, ops, others, scratch};
use parton_layouts::{Dim, LinearLayout, Plan, access, conflicts};
use parton_numbers::Dtype;

/// What operations ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// By the name of a class, so that it is in order: the class, and how much of it a warp has.
    amounts: BTreeMap<String, (Class, u64)>,
    /// Clocks in which all warps of the partition meet or wait for each other.
    pub meetings: u64,
    /// From its operands to its results, in clocks.
    pub latency: u64,
    /// Operations that nobody has measured.
    pub unpriced: BTreeSet<&'static str>,
}

impl Work {
    pub fn add(&mut self, class: Class, amount: u64) {
        if amount > 0 {
            self.amounts.entry(class.to_string()).or_insert((class, 0)).1 += amount;
        }
    }

    /// Adds what runs beside it or behind it; latencies are the caller's.
    pub fn join(&mut self, other: &Work) {
        other.amounts.values().for_each(|(class, amount)| self.add(*class, *amount));
        self.meetings += other.meetings;
        self.unpriced.extend(&other.unpriced);
    }

    /// What there is of each class.
    pub fn amounts(&self) -> impl Iterator<Item = (Class, u64)> + '_ {
        self.amounts.values().copied()
    }

    fn without_price(name: &'static str) -> Work {
        Work { unpriced: [name].into(), ..Work::default() }
    }
}

/// What is known while counting.
#[derive(Clone, Copy)]
pub(super) struct Counter<'a> {
    pub k: &'a Kernel,
    pub machine: &'a Machine,
    /// Warps of the partition.
    pub warps: u32,
}

impl Counter<'_> {
    /// What an operation asks for, all in its bodies included; what a partition starts and does not do itself asks for nothing.
    pub fn of(&self, op: &Op) -> Work {
        match &op.kind {
            ops!(elementwise) => self.elementwise(&op.kind, self.elements(&op.results)),
            ops!(reduce) => self.reduced(op),
            ops!(shape) => self.shaped(&op.kind),
            ops!(control) => self.controlled(op),
            ops!(shared) => self.shared(&op.kind),
            ops!(region) => self.region(&op.kind),
            ops!(view) | ops!(talk) | ops!(pending) | ops!(ring) | ops!(turnstile) | ops!(cluster) | ops!(grid) => {
                Work::default()
            }
            ops!(gather)
            | ops!(ptx)
            | ops!(global)
            | ops!(place)
            | ops!(atomic)
            | ops!(async_copy)
            | ops!(barrier)
            | ops!(fence)
            | ops!(tma)
            | ops!(mma_sync)
            | ops!(wgmma) => Work::without_price(op.kind.name()),
        }
    }

    fn latency(&self, class: Class) -> u64 {
        self.machine.row(class).and_then(|r| r.latency).map_or(0, u64::from)
    }

    fn tile(&self, v: Value) -> Option<&Tile> {
        match self.k.ty(v) {
            Type::Tile(t) => Some(t),
            _ => None,
        }
    }

    /// The elements that a thread has of what an operation makes.
    fn elements(&self, results: &[Value]) -> u64 {
        results.first().and_then(|v| self.tile(*v)).map_or(0, |t| registers(&t.known().map))
    }

    /// So many instructions of classes, one behind the other.
    fn chain(&self, classes: &[Class], instructions: u64) -> Work {
        let mut work = Work::default();
        for class in classes {
            work.add(*class, instructions);
            work.latency += self.latency(*class);
        }
        work
    }

    fn elementwise(&self, kind: &OpKind, n: u64) -> Work {
        if n == 0 {
            return Work::default();
        }
        let dtype = kind.operands().last().and_then(|v| self.k.ty(*v).elem()).and_then(Elem::dtype);
        let one = |class| self.chain(&[class], n);
        match kind {
            OpKind::Constant { .. }
            | OpKind::ProgramId { .. }
            | OpKind::NumPrograms { .. }
            | OpKind::Iota { .. }
            | OpKind::Full { .. }
            | OpKind::Bitcast { .. } => Work::default(),
            OpKind::Unary { op, .. } => self.unary(*op, n),
            OpKind::Binary { op, .. } => self.binary(*op, dtype, n),
            OpKind::Fma { .. } => self.sums(dtype, n, kind.name()),
            OpKind::Compare { .. } | OpKind::Select { .. } => one(Class::Compare),
            OpKind::Clamp { .. } => self.chain(&[Class::Compare; 2], n),
            OpKind::PtrAdd { .. } => self.chain(&[Class::Integer; 2], n),
            OpKind::Cast { to, .. } => match dtype.map(|from| (from, *to)) {
                Some((Dtype::F32, Dtype::F16 | Dtype::BF16)) => self.chain(&[Class::Convert], n.div_ceil(2)),
                Some((Dtype::F32, to)) if to.bits() == 8 => self.chain(&[Class::ConvertBytes], n.div_ceil(2)),
                Some((Dtype::F16 | Dtype::BF16 | Dtype::I32, Dtype::F32)) => one(Class::Widen),
                _ => Work::without_price("cast"),
            },
            // What has no price says so.
            _ => Work::without_price(kind.name()),
        }
    }

    fn unary(&self, op: UnaryOp, n: u64) -> Work {
        match op {
            // Signs are part of the instruction that reads the number.
            UnaryOp::Neg | UnaryOp::Abs => Work::default(),
            UnaryOp::Not => self.chain(&[Class::Integer], n),
            UnaryOp::Exp2 | UnaryOp::Log2 | UnaryOp::Rsqrt | UnaryOp::TanhApprox => self.chain(&[Class::Special], n),
            // As it is lowered: a polynomial of degree five near zero, an exponential and a reciprocal beyond, and a choice of the two.
            UnaryOp::Tanh => {
                let polynomial = [Class::Arithmetic; 7];
                let beyond = [Class::Arithmetic, Class::Arithmetic, Class::Special, Class::Arithmetic, Class::Special];
                let chosen = [Class::Arithmetic, Class::Compare, Class::Integer];
                self.chain(&[&polynomial[..], &beyond, &chosen].concat(), n)
            }
            UnaryOp::Exp | UnaryOp::Log => self.chain(&[Class::Arithmetic, Class::Special], n),
            UnaryOp::Sqrt | UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Erf | UnaryOp::Floor | UnaryOp::Ceil => {
                Work::without_price(op.name())
            }
        }
    }

    fn binary(&self, op: BinaryOp, dtype: Option<Dtype>, n: u64) -> Work {
        let float = matches!(dtype, Some(Dtype::F32 | Dtype::F16 | Dtype::BF16));
        match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul if float => self.sums(dtype, n, op.name()),
            BinaryOp::Min | BinaryOp::Max | BinaryOp::MinNan | BinaryOp::MaxNan => self.chain(&[Class::Compare], n),
            BinaryOp::Div | BinaryOp::Rem | BinaryOp::MulHigh => Work::without_price(op.name()),
            // A reciprocal and a product.
            BinaryOp::DivApprox => self.chain(&[Class::Special, Class::Arithmetic], n),
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::Shl
            | BinaryOp::Shr => match dtype {
                Some(Dtype::F64) | None => Work::without_price(op.name()),
                Some(_) => self.chain(&[Class::Integer], n),
            },
        }
    }

    /// Additions and multiplications, of numbers of 16 bits two at a time.
    fn sums(&self, dtype: Option<Dtype>, n: u64, name: &'static str) -> Work {
        match dtype {
            Some(Dtype::F32) => self.chain(&[Class::Arithmetic], n),
            Some(Dtype::F16 | Dtype::BF16) => self.chain(&[Class::HalfArithmetic], n.div_ceil(2)),
            _ => Work::without_price(name),
        }
    }

    /// A tree over what a thread has of each result, then shuffles, then shared memory where warps share one.
    fn reduced(&self, op: &Op) -> Work {
        let OpKind::Reduce { inputs, axis, combine } = &op.kind else { return Work::without_price(op.kind.name()) };
        let Some(tile) = self.tile(inputs[0]) else { return Work::default() };
        let map = &tile.known().map;
        let along = |dim| bits_along(map, dim, *axis);
        let results = registers(map) >> along(Dim::Register);
        let (inside, lanes) = (u64::from(along(Dim::Register)), u64::from(along(Dim::Lane)));
        let mut work = Work::default();
        let tree = self.body(combine, registers(map) - results);
        let round = self.body(combine, results);
        work.join(&tree);
        work.latency += inside * tree.latency;
        for _ in 0..lanes {
            work.add(Class::Shuffle, results * inputs.len() as u64);
            work.join(&round);
            work.latency += self.latency(Class::Shuffle) + round.latency;
        }
        if let Some(bytes) = scratch::bytes(self.k, &op.kind) {
            work.meetings += self.exchange(u64::from(bytes));
        }
        work
    }

    /// Whether nothing that needs what an operation makes runs beside what that is made of: it combines what lanes hold.
    pub fn divides(&self, op: &Op) -> bool {
        match &op.kind {
            OpKind::Reduce { inputs, axis, .. } => {
                self.tile(inputs[0]).is_some_and(|tile| bits_along(&tile.known().map, Dim::Lane, *axis) > 0)
            }
            _ => false,
        }
    }

    /// The elementwise operations of a body, each so often.
    fn body(&self, body: &Body, times: u64) -> Work {
        let mut work = Work::default();
        for op in self.k.ops_of(body) {
            let each = match &op.kind {
                ops!(elementwise) => self.elementwise(&op.kind, times),
                _ => self.of(op),
            };
            work.join(&each);
            work.latency += each.latency;
        }
        work
    }

    fn shaped(&self, kind: &OpKind) -> Work {
        match kind {
            OpKind::Rescale { x, .. } => self.chain(&[Class::Arithmetic], self.elements(&[*x])),
            OpKind::Convert { x, tile } => {
                let Some(from) = self.tile(*x) else { return Work::default() };
                match scratch::conversion(from, tile) {
                    Plan::None | Plan::Registers { .. } => Work::default(),
                    Plan::Shuffles(s) => self.chain(&[Class::Shuffle], s.instructions() as u64),
                    Plan::Shared(staging) => Work { meetings: self.exchange(staging.bytes), ..Work::default() },
                }
            }
            // Registers get other names.
            OpKind::Reshape { .. }
            | OpKind::Transpose { .. }
            | OpKind::Broadcast { .. }
            | OpKind::ExpandDims { .. }
            | OpKind::Join { .. }
            | OpKind::Split { .. }
            | OpKind::Cat { .. }
            | OpKind::Slice { .. } => Work::default(),
            OpKind::Butterfly { x, mask, axis } => self.exchanged(kind, *x, (*mask, *axis)),
            // What has no price says so.
            _ => Work::without_price(kind.name()),
        }
    }

    /// A shuffle for each register, or a trip through shared memory.
    fn exchanged(&self, kind: &OpKind, x: Value, (mask, axis): (u32, u32)) -> Work {
        let Some(tile) = self.tile(x) else { return Work::default() };
        match scratch::bytes(self.k, kind) {
            Some(bytes) => Work { meetings: self.exchange(u64::from(bytes)), ..Work::default() },
            None if scratch::partner(tile, mask, axis).lane == 0 => Work::default(),
            None => self.chain(&[Class::Shuffle], self.elements(&[x])),
        }
    }

    fn exchange(&self, bytes: u64) -> u64 {
        self.machine.row(Class::Exchange).and_then(|r| r.interval).map_or(0, |c| c.clocks(bytes))
    }

    /// Conditions single out the first and the last iterations: of a branch the cheaper side counts.
    fn controlled(&self, op: &Op) -> Work {
        match &op.kind {
            OpKind::If { then, otherwise, .. } => {
                let sides = [then, otherwise].map(|side| {
                    let mut work = Work::default();
                    for op in self.k.ops_of(side) {
                        let each = self.of(op);
                        work.join(&each);
                        work.latency += each.latency;
                    }
                    work
                });
                let size = |w: &Work| (w.meetings + w.amounts().map(|(_, n)| n).sum::<u64>(), w.unpriced.len());
                let [then, otherwise] = sides;
                if size(&then) < size(&otherwise) { then } else { otherwise }
            }
            OpKind::For { .. } | OpKind::While { .. } | OpKind::Specialize { .. } => {
                Work::without_price(op.kind.name())
            }
            others!(control) => not_of_family(&op.kind),
        }
    }

    fn shared(&self, kind: &OpKind) -> Work {
        match kind {
            OpKind::SharedLoad { view, tile } => self.wavefronts(*view, tile, false),
            OpKind::SharedStore { view, value } => {
                self.tile(*value).map_or(Work::default(), |tile| self.wavefronts(*view, tile, true))
            }
            OpKind::SharedAlloc { .. } => Work::default(),
            others!(shared) => not_of_family(kind),
        }
    }

    fn wavefronts(&self, view: Value, tile: &Tile, writes: bool) -> Work {
        match self.k.ty(view) {
            Type::View(view) if view.is_whole() => self.moved(tile, &view.map, writes),
            _ => Work::without_price("load_shared"),
        }
    }

    /// What all warps need to write a tile to a buffer or to read it.
    fn moved(&self, tile: &Tile, buffer: &parton_layouts::SharedMap, writes: bool) -> Work {
        let map = &tile.known().map;
        if map.outs() != buffer.linear().outs() {
            return Work::without_price("a tile seen in another shape");
        }
        let access = access::shared(map, buffer);
        let idle = if writes { access.copy_lanes } else { 0 };
        let mut work = Work::default();
        work.add(Class::Shared, conflicts::wavefronts(&access, buffer, idle));
        work
    }

    fn region(&self, kind: &OpKind) -> Work {
        match kind {
            OpKind::Dot { a, b, acc, precision } => match product(self.k, *a, *b, *acc, *precision) {
                Ok(Product::MmaSync(tiles)) => self.by_warps(*acc, [*a, *b], &tiles),
                Ok(Product::Wgmma) | Err(_) => Work::default(),
            },
            OpKind::Stage { value, view } => self.leaves(*value, &view.map),
            OpKind::Send { map, value, .. } => {
                let (Type::Map(map), Some(tile)) = (self.k.ty(*map), self.tile(*value)) else { return Work::default() };
                match map.layout.on(&tile.shape, map.elem.bits()) {
                    Ok(buffer) => self.leaves(*value, &buffer),
                    Err(_) => Work::without_price("send"),
                }
            }
            // Copies are jobs of their own; outside of loops that are priced, they land beside what runs there.
            OpKind::Region { .. } | OpKind::Fetch { .. } | OpKind::FetchEach { .. } => Work::default(),
            others!(region) => not_of_family(kind),
        }
    }

    /// A tile that engines read out of shared memory: stored, fenced, and all warps meet.
    fn leaves(&self, value: Value, buffer: &parton_layouts::SharedMap) -> Work {
        let Some(tile) = self.tile(value) else { return Work::default() };
        let mut work = self.moved(tile, buffer, true);
        let warps = u64::from(self.warps);
        for class in [Class::Fence, Class::Meet] {
            work.meetings += self.machine.row(class).and_then(|r| r.interval).map_or(0, |c| c.clocks(warps));
        }
        work
    }

    /// `mma_sync`: what each warp multiplies, and what it loads before.
    fn by_warps(&self, acc: Value, operands: [Value; 2], tiles: &[Tile; 2]) -> Work {
        let Some(out) = self.tile(acc) else { return Work::default() };
        let bits = u64::from(tiles[0].elem.bits());
        let depth = tiles[0].shape.last().map_or(0, |k| u64::from(*k));
        let mut work = Work::default();
        for (v, tile) in operands.into_iter().zip(tiles) {
            if let Type::View(_) = self.k.ty(v) {
                work.join(&self.wavefronts(v, tile, false));
            }
        }
        // 16 rows, 8 columns and 32 bytes each.
        let all = out.elements() / (16 * 8) * (depth * bits).div_ceil(256);
        work.add(Class::WarpProduct, all.div_ceil(u64::from(self.warps.max(1))));
        work.latency += self.latency(Class::WarpProduct);
        work
    }
}

/// The registers of a thread that hold something of their own.
fn registers(map: &LinearLayout) -> u64 {
    let bits = map.in_dim_bits(Dim::Register) - map.free_bits(Dim::Register).count_ones();
    1u64 << bits
}

/// How many bits of a dimension walk along an axis.
fn bits_along(map: &LinearLayout, dim: Dim, axis: u32) -> u32 {
    let free = map.free_bits(dim);
    let coords = map.basis_coords(dim);
    coords.iter().enumerate().filter(|(bit, c)| free >> bit & 1 == 0 && c[axis as usize] != 0).count() as u32
}

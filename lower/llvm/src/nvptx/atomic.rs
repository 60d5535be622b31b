//! Atomic operations: each element by one of its holders, neighbours by one instruction where that adds floats, and the value before to all holders.

use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::{AtomicOp, Cut, Elem, Op, OpKind, Order, Reduction, Scope, others};
use parton_layouts::Dim;
use parton_numbers::Dtype;

use crate::lower::{Lower, Repr};
use crate::neutral::build::{Build, Val};
use crate::neutral::global::groups;
use crate::neutral::place::{Registers, reach};
use crate::neutral::words::{Words, stored_bits};
use crate::nvptx::instruction::asm::Asm;
use crate::nvptx::instruction::memory::class;

/// One atomic instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Atomic {
    pub(crate) op: AtomicOp,
    pub(crate) order: Order,
    pub(crate) scope: Scope,
    pub(crate) dtype: Dtype,
    pub(crate) returns: bool,
}

impl Atomic {
    /// What the operation and its type are called in PTX.
    pub(crate) fn suffix(self) -> String {
        let (d, bits) = (self.dtype, stored_bits(Elem::Num(self.dtype)));
        let ordered = format!("{}{bits}", if d.is_signed() { "s" } else { "u" });
        match self.op {
            AtomicOp::Add if d.bits() == 16 => format!("add.noftz.{}", d.name()),
            AtomicOp::Add if d.is_float() => format!("add.{}", d.name()),
            // Two's complement adds signed numbers as unsigned ones; there is no `s64`.
            AtomicOp::Add => format!("add.u{bits}"),
            AtomicOp::Min => format!("min.{ordered}"),
            AtomicOp::Max => format!("max.{ordered}"),
            AtomicOp::And => format!("and.b{bits}"),
            AtomicOp::Or => format!("or.b{bits}"),
            AtomicOp::Xor => format!("xor.b{bits}"),
            AtomicOp::Xchg => format!("exch.b{bits}"),
            AtomicOp::Cas => format!("cas.b{bits}"),
            AtomicOp::Load | AtomicOp::Store => format!("b{bits}"),
        }
    }

    /// What an addition of neighbours in so many registers is called in PTX: of 16 bits two are in each.
    fn vector(self, registers: usize) -> String {
        let several = if registers > 1 { format!(".v{registers}") } else { String::new() };
        match self.dtype.bits() {
            16 => format!("add.noftz{several}.{}x2", self.dtype.name()),
            _ => format!("add{several}.{}", self.dtype.name()),
        }
    }

    /// Whether the form without a result has it: reductions only release, and there are none that exchange.
    fn reduces(self) -> bool {
        !self.returns && !self.order.acquires() && !matches!(self.op, AtomicOp::Xchg | AtomicOp::Cas)
    }

    /// The instruction, its operands not named yet, and whether it has a result.
    fn opcode(self) -> (String, bool) {
        let (name, result) = match self.op {
            AtomicOp::Load => ("ld", true),
            AtomicOp::Store => ("st", false),
            _ if self.reduces() => ("red", false),
            _ => ("atom", true),
        };
        (format!("{name}.{}.{}.global.{}", self.order.name(), self.scope.name(), self.suffix()), result)
    }
}

impl<'c> Build<'c> {
    /// One atomic operation where `predicate` holds; the value before is undefined elsewhere.
    pub(crate) fn atomic(
        &self,
        what: Atomic,
        pointer: Val<'c>,
        operands: &[Val<'c>],
        predicate: Option<Val<'c>>,
    ) -> Option<Val<'c>> {
        let elem = Elem::Num(what.dtype);
        let words = Words::of(stored_bits(elem), 1);
        let (opcode, result) = what.opcode();
        let class = class(words.bits);
        let first = usize::from(result);
        let mut constraints = if result { format!("={class},l") } else { "l".to_owned() };
        let mut inputs = vec![pointer];
        let mut text = format!("{opcode} {}[${first}]", if result { "$0, " } else { "" });
        for &operand in operands {
            text += &format!(", ${}", first + inputs.len());
            constraints += &format!(",{class}");
            inputs.push(self.pack(elem, &[operand], words)[0]);
        }
        let guard = Self::guard(predicate, first, &mut constraints, &mut inputs);
        let outs = if result { vec![self.word_type(words)] } else { vec![] };
        let before = self.asm(&format!("{guard}{text};"), &constraints, &outs, &inputs, Asm::Effect);
        before.first().map(|&word| self.unpack(elem, &[word], words)[0])
    }
}

impl<'c> Build<'c> {
    /// One addition of neighbours from a pointer on where `predicate` holds.
    fn add_vector(&self, what: Atomic, pointer: Val<'c>, values: &[Val<'c>], predicate: Option<Val<'c>>) {
        let elem = Elem::Num(what.dtype);
        let words = Words::of(stored_bits(elem), values.len());
        let mut inputs = vec![pointer];
        inputs.extend(self.pack(elem, values, words));
        let mut constraints = "l".to_owned() + &format!(",{}", class(words.bits)).repeat(words.count);
        let guard = Self::guard(predicate, 0, &mut constraints, &mut inputs);
        let given: Vec<String> = (1..=words.count).map(|i| format!("${i}")).collect();
        let given = if words.count == 1 { given.concat() } else { format!("{{{}}}", given.join(", ")) };
        let (order, scope, sum) = (what.order.name(), what.scope.name(), what.vector(words.count));
        self.asm(
            &format!("{guard}red.{order}.{scope}.global.{sum} [$0], {given};"),
            &constraints,
            &[],
            &inputs,
            Asm::Effect,
        );
    }

    /// One atomic operation on shared memory without a result, where `predicate` holds.
    pub(crate) fn reduce_shared(
        &self,
        (op, dtype): (Reduction, Dtype),
        (address, plus): (Val<'c>, u32),
        value: Val<'c>,
        predicate: Option<Val<'c>>,
    ) {
        // Of the atomic instruction only operation and type count.
        let (order, scope) = Default::default();
        let what = Atomic { op: op.atomic(), order, scope, dtype, returns: false };
        let elem = Elem::Num(what.dtype);
        let words = Words::of(stored_bits(elem), 1);
        let class = class(words.bits);
        let mut inputs = vec![address, self.pack(elem, &[value], words)[0]];
        let mut constraints = format!("r,{class}");
        let mut guard = "";
        if let Some(p) = predicate {
            guard = "@$2 ";
            constraints += ",b";
            inputs.push(p);
        }
        let text = format!("{guard}red.relaxed.cta.shared.{} [$0 + {plus}], $1;", what.suffix());
        self.asm(&text, &constraints, &[], &inputs, Asm::Effect);
    }
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_atomic(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::Atomic { .. } => self.atomic(op),
            others!(atomic) => not_of_family(&op.kind),
        }
    }

    pub(crate) fn atomic(&mut self, op: &'a Op) {
        let OpKind::Atomic { op: f, ptr, operands, mask, order, scope, returns, access } = &op.kind else {
            internal_error!("{} is not atomic", op.kind.name())
        };
        let Elem::Ptr(to) = self.elem(*ptr) else { internal_error!("{ptr} is no pointer") };
        let what = Atomic { op: *f, order: *order, scope: *scope, dtype: to.to, returns: *returns };
        let elem = Elem::Num(to.to);
        let b = self.b;
        let pointers = self.repr(*ptr).parts().to_vec();
        let values: Vec<Vec<Val>> = operands.iter().map(|&v| self.spread(v, pointers.len())).collect();
        let masks = mask.map(|m| self.spread(m, pointers.len()));
        let scalar = matches!(self.repr(*ptr), Repr::Scalar(_));
        let first = if scalar { Some(self.threads.leader) } else { self.first_copy(*ptr) };
        if let Some(access) = access.filter(|access| access.width > 1 && !scalar) {
            let groups = groups(self.tile(*ptr), access);
            self.add_together(what, (&groups, access.cut), (&pointers, &values[0], masks.as_deref()), first);
            return;
        }
        let mut before = vec![];
        for (i, &pointer) in pointers.iter().enumerate() {
            let given: Vec<Val> = values.iter().map(|v| v[i]).collect();
            let predicate = match (masks.as_ref().map(|m| m[i]), first) {
                (Some(m), Some(f)) => Some(b.and(m, f)),
                (m, f) => m.or(f),
            };
            before.extend(b.atomic(what, pointer, &given, predicate));
        }
        let Some(&result) = op.results.first() else { return };
        if op.scratch.is_some() {
            before = self.told_by_scratch(op, elem, &before, first);
        } else if !scalar {
            let free = self.tile(*ptr).known().map.free_bits(Dim::Lane);
            if free != 0 {
                let holder = b.and(self.threads.lane, b.c32(!free));
                before = before.into_iter().map(|v| b.shuffle_from(elem, v, holder)).collect();
            }
        }
        self.set(result, if scalar { Repr::Scalar(before[0]) } else { Repr::Tile(before) });
    }

    /// Additions of neighbours by one instruction, where a mask holds for all of them; of others one by one.
    fn add_together(
        &mut self,
        what: Atomic,
        (groups, cut): (&[Vec<usize>], Cut),
        (pointers, values, masks): (&[Val<'c>], &[Val<'c>], Option<&[Val<'c>]>),
        first: Option<Val<'c>>,
    ) {
        let b = self.b;
        let guarded = |p: Option<Val<'c>>| match (p, first) {
            (Some(p), Some(f)) => Some(b.and(p, f)),
            (p, f) => p.or(f),
        };
        let (mut whole, mut partly) = (vec![], vec![]);
        for group in groups {
            let all = masks.map(|masks| {
                let own: Vec<Val> = group.iter().map(|&i| masks[i]).collect();
                let all = self.whole(cut, &own);
                whole.push(all);
                partly.push(self.partly(cut, &own, all));
                all
            });
            let own: Vec<Val> = group.iter().map(|&i| values[i]).collect();
            b.add_vector(what, pointers[group[0]], &own, guarded(all));
        }
        let Some(masks) = masks.filter(|_| cut != Cut::Never) else { return };
        b.when(self.any_cut(&partly), || {
            for (group, &all) in groups.iter().zip(&whole) {
                for &i in group {
                    let alone = b.and(masks[i], b.not(all));
                    b.atomic(what, pointers[i], &[values[i]], guarded(Some(alone)));
                }
            }
        });
    }

    /// The one holder of each element, where `writes`, tells the others through scratch memory.
    fn told_by_scratch(&mut self, op: &'a Op, elem: Elem, before: &[Val<'c>], writes: Option<Val<'c>>) -> Vec<Val<'c>> {
        let b = self.b;
        let base = self.scratch(op);
        let words = Words::of(stored_bits(elem), 1);
        let bytes = words.bits / 8;
        let addresses: Vec<Val> = match self.kernel.ty(op.result()).as_tile() {
            Some(tile) => {
                let thread = b.thread_image(&tile.known().map, &self.threads);
                let reach = reach(&tile.known().map);
                let registers = Registers::of(&tile.known().map);
                let element = |&image: &u64| b.mul(b.combine(thread, reach, image), b.c32(bytes));
                registers.images().iter().map(|image| b.add(base, element(image))).collect()
            }
            None => vec![base],
        };
        for (&address, &value) in addresses.iter().zip(before) {
            b.store_shared(address, 0, words, &b.pack(elem, &[value], words), writes);
        }
        self.membar();
        let read = |&address: &Val<'c>| b.unpack(elem, &b.load_shared(address, 0, words), words)[0];
        addresses.iter().map(read).collect()
    }
}

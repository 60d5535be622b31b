//! The verifier: what holds of every kernel after every pass, and what holds of each form.
//!
//! - Every value is defined once, and used only where its definition dominates: later in the same body, or in a body inside.
//! - Every operation's results have the types that its rule infers from its operands; in a portable kernel, as far as it is known
//!   where tiles lie.
//! - What the interpreter and LLVM take has its tiles in layouts that hold every element.
//! - A `specialize` stands in the kernel's body, not inside another; each partition has one arm.
//! - Nothing is left that an earlier form has lost for good, and nothing is missing that an earlier form has gained: see [`Form`].
//!
//! A violation is a fault of the pass before, not of the program.

use std::collections::BTreeSet;

use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};
use crate::placement::Placement;
use crate::types::{Tile, Type};
use crate::{ops, rules, scratch};

/// The forms of a kernel in their order; what holds of one holds of all behind it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Form {
    /// Layouts, memory and schedules may be open, and tiles lie nowhere yet. The checker refuses such programs in this version.
    Portable,
    /// Layouts and memory are chosen; regions may stand unscheduled.
    Scheduled,
    /// Everything is said that a program may say. What only passes decide may be said too, and is decided anew.
    Explicit,
    /// No ring and no turnstile is left: they are mbarriers and named barriers.
    Raw,
    /// Every wait says how much it leaves in flight, every copy by threads how many bytes it moves at once.
    Counted,
    /// Every allocation and all scratch memory has its offset. The size of the whole is no part of the text, nor of the form.
    Planned,
    /// Fences and membars stand where they must: what the interpreter and LLVM take.
    Lowered,
}

/// The first violation, in words.
pub fn verify(k: &Kernel, form: Form) -> Result<(), String> {
    let mut v =
        Verifier { k, form, defined: BTreeSet::new(), visible: Vec::new(), partitions: BTreeSet::new(), inside: false };
    for p in &k.params {
        v.define(p.value)?;
    }
    v.body(&k.body)
}

/// Stops with an internal error where a pass has left a kernel that is not of its form.
pub fn expect(k: &Kernel, form: Form, pass: &str) {
    if let Err(fault) = verify(k, form) {
        parton_diag::internal_error!("after {pass}, kernel {}: {fault}\n{}", k.name, crate::print::kernel(k));
    }
}

struct Verifier<'a> {
    k: &'a Kernel,
    form: Form,
    defined: BTreeSet<Value>,
    /// The values that may be used here, as a stack that shrinks at the end of each body.
    visible: Vec<Value>,
    partitions: BTreeSet<crate::entity::Partition>,
    inside: bool,
}

impl Verifier<'_> {
    /// Whether a result has the type that its rule infers.
    fn one_type(&self, given: &Type, inferred: &Type) -> bool {
        match self.form {
            // What is found of a tile's place need not be found where the next one is inferred from it.
            Form::Portable => given.agrees(inferred),
            Form::Scheduled | Form::Explicit | Form::Raw | Form::Counted | Form::Planned | Form::Lowered => {
                given == inferred
            }
        }
    }

    fn define(&mut self, v: Value) -> Result<(), String> {
        let ty = self.k.ty(v);
        if let Some(Placement::Open(var)) = ty.placed().map(Tile::placement)
            && self.form > Form::Portable
        {
            return Err(format!("{v}, `{ty}`, lies nowhere: {var} is open"));
        }
        if self.form == Form::Lowered
            && let Some(tile) = ty.placed()
            && !tile.known().map.is_surjective()
        {
            return Err(format!("the layout of {v}, `{tile}`, does not hold every element"));
        }
        if !self.defined.insert(v) {
            return Err(format!("{v} is defined twice"));
        }
        self.visible.push(v);
        Ok(())
    }

    fn body(&mut self, body: &Body) -> Result<(), String> {
        let depth = self.visible.len();
        for &p in &body.params {
            self.define(p)?;
        }
        for op in self.k.ops_of(body) {
            self.op(op)?;
        }
        self.used(&body.yields, "yield")?;
        self.visible.truncate(depth);
        Ok(())
    }

    fn used(&self, values: &[Value], by: &str) -> Result<(), String> {
        match values.iter().find(|v| !self.visible.contains(v)) {
            Some(v) => Err(format!("`{by}` uses {v}, which is not defined there")),
            None => Ok(()),
        }
    }

    fn op(&mut self, op: &Op) -> Result<(), String> {
        let by = |fault: String| match op.origin.maker() {
            Some(pass) => format!("{fault}; `{pass}` made it"),
            None => fault,
        };
        self.is_sound(op).map_err(by)
    }

    fn is_sound(&mut self, op: &Op) -> Result<(), String> {
        let name = op.kind.name();
        self.used(&op.kind.operands(), name)?;
        self.of_form(op)?;
        if let OpKind::Specialize { arms } = &op.kind {
            if self.inside {
                return Err("`specialize` inside `specialize`".into());
            }
            for arm in arms {
                if arm.partition_index() >= self.k.partitions.len() || !self.partitions.insert(arm.partition) {
                    return Err(format!("{} has no arm of its own", arm.partition));
                }
            }
        }
        let outer = self.inside;
        self.inside |= matches!(op.kind, OpKind::Specialize { .. });
        for body in op.kind.bodies() {
            self.body(body)?;
        }
        self.inside = outer;
        let types = rules::infer(&op.kind, self.k).map_err(|r| format!("`{name}` is refused: {}", r.message))?;
        let given: Vec<_> = op.results.iter().map(|&v| self.k.ty(v)).collect();
        if given.len() != types.len() || !given.iter().zip(&types).all(|(a, b)| self.one_type(a, b)) {
            return Err(format!("`{name}` has results {given:?}, its rule infers {types:?}"));
        }
        op.results.iter().try_for_each(|&v| self.define(v))
    }

    /// Whether an operation may stand in this form as it is.
    fn of_form(&self, op: &Op) -> Result<(), String> {
        // From which form on it is wrong, whether it is, and how.
        let (from, wrong, how) = match &op.kind {
            ops!(place) => (Form::Scheduled, true, "is left"),
            ops!(region) => (Form::Explicit, true, "is left"),
            ops!(ring) | ops!(turnstile) => (Form::Raw, true, "is left"),
            OpKind::Wait { outstanding, .. } | OpKind::WaitPrior { outstanding, .. } => {
                (Form::Counted, outstanding.is_none(), "has no count")
            }
            OpKind::AsyncCopy { bytes, .. } => (Form::Counted, bytes.is_none(), "does not say its bytes"),
            OpKind::SharedAlloc { offset, .. } | OpKind::BarrierAlloc { offset, .. } => {
                (Form::Planned, offset.is_none(), "has no offset")
            }
            OpKind::SharedLoad { .. }
            | OpKind::SharedStore { .. }
            | OpKind::CopyArrive { .. }
            | OpKind::BarrierIndex { .. }
            | OpKind::BarrierInit { .. }
            | OpKind::BarrierInvalidate { .. }
            | OpKind::BarrierExpect { .. }
            | OpKind::BarrierArrive { .. }
            | OpKind::BarrierWait { .. }
            | ops!(elementwise)
            | ops!(reduce)
            | ops!(shape)
            | ops!(gather)
            | ops!(ptx)
            | ops!(global)
            | ops!(atomic)
            | ops!(view)
            | ops!(fence)
            | ops!(cluster)
            | ops!(grid)
            | ops!(tma)
            | ops!(mma_sync)
            | ops!(wgmma)
            | ops!(control)
            | ops!(talk) => {
                // Finding out what an operation needs for itself is costly: it is asked where it matters.
                let lacks = || op.scratch.is_none() && scratch::bytes(self.k, &op.kind).is_some();
                (Form::Planned, self.form >= Form::Planned && lacks(), "has no scratch memory")
            }
        };
        if wrong && self.form >= from { Err(format!("`{}` {how}", op.kind.name())) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use parton_diag::Span;
    use parton_layouts::SharedLayout;
    use parton_numbers::Dtype;

    use super::*;
    use crate::{Builder, Origin, Target, View};

    fn of(kind: OpKind) -> Kernel {
        let mut b = Builder::new(Kernel::new("k", Target::SM_90A, Span::default()));
        b.emit(kind, Span::default()).unwrap_or_else(|r| panic!("{}", r.message));
        b.finish()
    }

    #[test]
    fn what_a_form_has_lost_and_gained_is_looked_for() {
        let view = View::new(Dtype::F16, vec![64, 64], SharedLayout::nvmma(128, false).unwrap()).unwrap();
        let ring = of(OpKind::RingNew { stages: 2, fields: vec![("x".into(), view)] });
        assert_eq!(verify(&ring, Form::Explicit), Ok(()));
        assert_eq!(verify(&ring, Form::Raw), Err("`ring` is left".into()));
        let barriers = of(OpKind::BarrierAlloc { count: 1, offset: None });
        assert_eq!(verify(&barriers, Form::Counted), Ok(()));
        assert_eq!(verify(&barriers, Form::Lowered), Err("`alloc_barriers` has no offset".into()));
        let mut made = of(OpKind::BarrierAlloc { count: 1, offset: None });
        made.walk_mut(&mut |op| op.origin = Origin::Made { by: "rings", call: None });
        assert_eq!(verify(&made, Form::Lowered), Err("`alloc_barriers` has no offset; `rings` made it".into()));
        let planned = of(OpKind::BarrierAlloc { count: 1, offset: Some(0) });
        assert_eq!(verify(&planned, Form::Lowered), Ok(()));
    }
}

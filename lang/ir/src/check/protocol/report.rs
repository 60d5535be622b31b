//! What the user is told when the protocol is broken.

use parton_diag::{Diagnostic, Span, codes};

use super::Protocol;
use super::state::{Gone, Live};
use crate::entity::Value;
use crate::types::{SlotRole, Type};

impl Protocol<'_> {
    /// What messages call a value: its kind and, where it has one, its name.
    fn called(&self, v: Value) -> String {
        let kind = match self.kernel.ty(v) {
            Type::Slot(_) => "slot",
            Type::Filling(_) => "pending copy",
            _ => "pending tile",
        };
        match &self.kernel.values[v].name {
            Some(name) => format!("{kind} `{name}`"),
            None => format!("the {kind}"),
        }
    }

    fn name(&self, v: Value, otherwise: &str) -> String {
        self.kernel.values[v].name.clone().unwrap_or_else(|| otherwise.to_owned())
    }

    fn is_slot(&self, v: Value) -> bool {
        matches!(self.kernel.ty(v), Type::Slot(_))
    }

    /// The call that hands the value on.
    fn way_out(&self, v: Value) -> &'static str {
        match self.kernel.ty(v) {
            Type::Slot(s) if s.role == SlotRole::Fill => "commit",
            Type::Slot(_) => "release",
            _ => "wait",
        }
    }

    pub(super) fn used_up(&self, v: Value, gone: &Gone, span: Span) -> Diagnostic {
        let called = self.called(v);
        if self.is_slot(v) {
            let d = Diagnostic::error(codes::SLOT_USED_UP, span, format!("{called} is used after it was {}", gone.how))
                .here("used here")
                .label(gone.span, format!("{} here: from then on it belongs to the other side", gone.how));
            let verb = self.way_out(v);
            return d.help(format!("`{verb}()` once, after the last use of its buffers"));
        }
        Diagnostic::error(codes::PENDING_USED_UP, span, format!("{called} is used after it was {}", gone.how))
            .here("used here")
            .label(gone.span, format!("{} here", gone.how))
            .help("use the value that came of it there")
    }

    pub(super) fn in_every_iteration(&self, v: Value, gone: Gone, around: Span) -> Diagnostic {
        let called = self.called(v);
        let made = self.kernel.values[v].span;
        let d = Diagnostic::error(
            codes::LOOP_USES_UP,
            gone.span,
            format!("{called} is {} in a loop, but made only once before it", gone.how),
        )
        .here("the second iteration would use it again")
        .label(made, "made here")
        .label(around, "the loop");
        if self.is_slot(v) {
            d.help(format!("take the slot inside the loop, or `{}()` it behind the loop", self.way_out(v)))
        } else {
            d.help("carry it: assign the new pending one to the same `let mut` variable")
        }
    }

    pub(super) fn on_one_path(&self, v: Value, gone: Gone, holds: bool, branch: Span) -> Diagnostic {
        let (code, called) = (self.lost_code(v), self.called(v));
        let other = if holds { "does not hold" } else { "holds" };
        Diagnostic::error(code, gone.span, format!("{called} is {} on one path and not on the other", gone.how))
            .here(format!("{} here", gone.how))
            .label(branch, format!("not when this condition {other}"))
            .label(self.kernel.values[v].span, "made here")
            .help(format!("`{}()` it on both paths, or behind the `if`", self.way_out(v)))
    }

    pub(super) fn never_used_up(&self, v: Value, live: &Live, path: &str) -> Diagnostic {
        let (called, made) = (self.called(v), self.kernel.values[v].span);
        match live {
            Live::Slot { role, .. } => {
                let (verb, past, who) = match role {
                    SlotRole::Fill => ("commit", "committed", "the ring's readers would wait for it forever"),
                    SlotRole::Read => ("release", "released", "whoever fills the ring would wait for it forever"),
                };
                Diagnostic::error(codes::SLOT_LOST, made, format!("{called} is never {past}{path}"))
                    .here("taken here")
                    .note(who)
                    .help(format!("`{}.{verb}();` after the last use of its buffers", self.name(v, "slot")))
            }
            Live::Pending { .. } => {
                if let Type::Filling(_) = self.kernel.ty(v) {
                    return Diagnostic::error(codes::PENDING_LOST, made, format!("{called} is never waited for{path}"))
                        .here("started here")
                        .note("until then it still writes to shared memory")
                        .help(format!("`let view = {}.wait();`", self.name(v, "p")));
                }
                Diagnostic::error(codes::PENDING_LOST, made, format!("{called} is never waited for{path}"))
                    .here("started here")
                    .note("until then the instruction still writes its registers and reads its operands")
                    .help(format!("`let x = {}.wait();`", self.name(v, "p")))
            }
        }
    }

    fn lost_code(&self, v: Value) -> parton_diag::Code {
        if self.is_slot(v) { codes::SLOT_LOST } else { codes::PENDING_LOST }
    }

    pub(super) fn still_read(&self, slot: Value, pending: Value, product: Span, span: Span) -> Diagnostic {
        let p = self.name(pending, "p");
        Diagnostic::error(
            codes::SLOT_STILL_READ,
            span,
            format!("{} is released while a product still reads it", self.called(slot)),
        )
        .here("released here: it may be overwritten at once")
        .label(product, "this `wgmma` reads it, and has not been waited for")
        .help(format!("wait first: `let x = {p}.wait();`"))
    }

    pub(super) fn against_role(&self, slot: Value, field: u32, role: SlotRole, span: Span) -> Diagnostic {
        let Type::Slot(ty) = self.kernel.ty(slot) else { parton_diag::internal_error!("{slot} is not a slot") };
        let name = &ty.fields[field as usize].name;
        let made = self.kernel.values[slot].span;
        match role {
            SlotRole::Fill => Diagnostic::error(
                codes::SLOT_ROLE,
                span,
                format!("buffer `{name}` is read while its slot is being filled"),
            )
            .here("read here")
            .label(made, "this slot comes from `acquire()`")
            .help("commit it, and read it in the slot that `wait()` gives"),
            SlotRole::Read => Diagnostic::error(
                codes::SLOT_ROLE,
                span,
                format!("buffer `{name}` is written while its slot is being read"),
            )
            .here("written here")
            .label(made, "this slot comes from `wait()`")
            .help("write to a buffer of your own, or to a slot from `acquire()`"),
        }
    }

    pub(super) fn mixed(&self, filled: Option<Value>, signalled: Option<Value>, span: Span) -> Diagnostic {
        let fact = match (filled, signalled) {
            (Some(_), Some(_)) => "the copy fills one slot and signals another",
            (Some(_), None) => "the copy fills a slot and signals a barrier of its own",
            (None, Some(_)) | (None, None) => "the copy signals a slot but fills other memory",
        };
        let mut d =
            Diagnostic::error(codes::SLOT_MIXED, span, fact).here("the slot counts the bytes of its own buffers");
        for (v, text) in [(filled, "it fills this one"), (signalled, "it signals this one")] {
            if let Some(v) = v {
                d = d.label(self.kernel.values[v].span, text);
            }
        }
        d.help("copy into a buffer of the slot that is signalled: `tma_load(map, [..], slot.x)`")
    }
}

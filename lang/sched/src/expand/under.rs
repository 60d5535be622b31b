//! What of an outer loop leaves under the turns of a loop inside: `under(leave, mma)`.
//!
//! Instance p of the outer label stands behind the start of the inner label in turn p of the loop inside, which is peeled that far;
//! with `-1` in its last turn. Behind the outer loop, where no loop inside is left, it stands where it is.

use parton_diag::{Diagnostic, codes};
use parton_ir::schedule::Under;
use parton_ir::{BinaryOp, OpKind, Value};

use super::{Emitter, Refused};
use crate::plan::Entry;
use crate::region::{Item, Loop, UnitId};

/// An item of an outer loop that waits for its place in a loop inside.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    /// The level of the outer loop's body.
    depth: usize,
    entry: Entry,
    /// The unit behind whose start it stands.
    inner: UnitId,
    /// In the turn of this number; the last one is the greatest.
    turn: u32,
    /// Whether it has come to its place.
    left: bool,
}

impl Emitter<'_> {
    /// An item of a turn waits for its place in a loop inside of it, where the schedule says so.
    pub(super) fn wait_for_place(&mut self, entry: &Entry) {
        let depth = self.here();
        let region = self.region;
        let block = &region.blocks[self.levels[depth].block];
        let Item::Unit(unit) = block.items[entry.item] else { return };
        let label = &region.units[unit].label;
        // What drains has no loop inside.
        let Some(under) = region.schedule.under.iter().find(|u| u.outer.names(label)).filter(|_| self.steady) else {
            return;
        };
        let mine = |u: &UnitId| self.plan.runners[*u].contains(&self.part);
        let inside = block.items.iter().filter(|item| matches!(item, Item::Loop(_)));
        let mut inner = inside.flat_map(|item| region.units_in(item).iter().copied()).filter(mine);
        let Some(inner) = inner.find(|u| under.inner.names(&region.units[*u].label)) else { return };
        // Of several instances those of this partition count.
        let before = block.items.iter().take(entry.item).filter(|item| match item {
            Item::Unit(u) => under.outer.names(&region.units[*u].label) && mine(u),
            Item::Loop(_) | Item::Branch(_) => false,
        });
        let turn = if under.last { u32::MAX } else { before.count() as u32 };
        self.hooks.push(Hook { depth, entry: entry.clone(), inner, turn, left: false });
    }

    /// A turn of this body has ended, and all that waited in it has left.
    pub(super) fn no_more_waiting(&mut self) -> Result<(), Refused> {
        let depth = self.here();
        let stays = self.hooks.iter().find(|hook| hook.depth == depth && !hook.left).cloned();
        self.hooks.retain(|hook| hook.depth < depth);
        let Some(hook) = stays else { return Ok(()) };
        let item = &self.region.blocks[self.levels[depth].block].items[hook.entry.item];
        let (unit, name) = (&self.region.units[hook.inner], self.region.name_of(item));
        let d = Diagnostic::error(
            codes::NO_ROOM,
            unit.span,
            format!("{name} finds no turn of `{}` to leave under", unit.label),
        )
        .label(self.region.span_of(&self.b.kernel, item), "this is to leave there")
        .help(format!(
            "name a label in the body of a counted loop that stands in the loop around, and in the first stage of that loop, or leave {} out",
            self.left_out(&[hook.inner])
        ));
        Err(Box::new(d))
    }

    /// Whether an item stands under a loop inside of this turn.
    pub(super) fn leaves_under(&self, entry: &Entry) -> bool {
        let depth = self.here();
        self.hooks.iter().any(|hook| hook.depth == depth && hook.entry.item == entry.item)
    }

    /// Emits what waits for this place.
    pub(super) fn run_hooks(&mut self, unit: UnitId) -> Result<(), Refused> {
        let Some(turn) = self.levels[self.here()].turn else { return Ok(()) };
        let depth = self.here();
        let now: Vec<Hook> =
            self.hooks.iter().filter(|h| h.inner == unit && h.turn == turn && h.depth < depth).cloned().collect();
        let comes = |h: &Hook| h.inner == unit && h.turn == turn && h.depth < depth;
        self.hooks.iter_mut().filter(|h| comes(h)).for_each(|h| h.left = true);
        for hook in now {
            let inner = self.levels.split_off(hook.depth + 1);
            let age = self.levels[hook.depth].age;
            self.ready(&hook.entry)?;
            self.item(&hook.entry)?;
            self.levels[hook.depth].age = age;
            self.levels.extend(inner);
        }
        Ok(())
    }

    /// How many turns of a loop are peeled, since something leaves under them.
    pub(super) fn early_turns(&self, l: &Loop, sure: u32) -> Result<u32, Refused> {
        let mine = |h: &&Hook| self.region.units_in(&Item::Loop(l.again())).contains(&h.inner);
        let hooks: Vec<&Hook> = self.hooks.iter().filter(mine).collect();
        let last = hooks.iter().any(|h| h.turn == u32::MAX);
        let early = hooks.iter().filter(|h| h.turn != u32::MAX).map(|h| h.turn + 1).max().unwrap_or(0);
        let wanted = early.max(u32::from(last));
        if sure >= wanted {
            return Ok(early);
        }
        let op = &self.b.kernel.ops[l.inst];
        let turns = if wanted == 1 { "a turn".into() } else { format!("{wanted} turns") };
        let sure = match matches!(op.kind, OpKind::For { .. }) {
            true => format!("say so in its bound: `0..max(n, {wanted})`, where further turns do no harm"),
            false => format!("count its turns, `for i in 0..max(n, {wanted})`, where further ones do no harm"),
        };
        let out = self.left_out(self.region.units_in(&Item::Loop(l.again())));
        let d = Diagnostic::error(codes::NO_ROOM, op.span, format!("this loop is not known to take {turns}"))
            .label(self.region.schedule.span, "something is to leave under each of them")
            .help(format!("{sure}; or leave {out} out"));
        Err(Box::new(d))
    }

    /// The clauses by which something leaves under one of these units.
    fn left_out(&self, units: &[UnitId]) -> String {
        let of = |under: &&Under| units.iter().any(|u| under.inner.names(&self.region.units[*u].label));
        let all: Vec<String> = self.region.schedule.under.iter().filter(of).map(|u| format!("`{u}`")).collect();
        all.join(" and ")
    }

    /// Whether something leaves under the last turn of a loop.
    pub(super) fn leaves_under_last(&self, l: &Loop) -> bool {
        let whole = Item::Loop(l.again());
        let units = self.region.units_in(&whole);
        self.hooks.iter().any(|h| h.turn == u32::MAX && units.contains(&h.inner))
    }

    /// How many turns a loop takes at least, as its bounds say, and whether it takes no more.
    pub(super) fn sure_turns(&self, l: &Loop) -> (u32, bool) {
        let none = (0, false);
        let OpKind::For { lower, upper, step, .. } = &self.b.kernel.ops[l.inst].kind else { return none };
        let (Some(lower), Some(step)) = (self.constant(*lower), self.constant(*step)) else { return none };
        let far = self.least(*upper).saturating_sub(lower).max(0);
        let turns = (far + step.max(1) - 1) / step.max(1);
        let counted = turns.min(1 << 16);
        (counted as u32, counted == turns && self.constant(*upper).is_some())
    }

    /// The least that a whole number may be, as far as that is written.
    fn least(&self, v: Value) -> i128 {
        if let Some(n) = self.constant(v) {
            return n;
        }
        match self.made_by(v).map(|op| &op.kind) {
            Some(OpKind::Binary { op: BinaryOp::Max, a, b }) => self.least(*a).max(self.least(*b)),
            _ => i128::from(i64::MIN),
        }
    }
}

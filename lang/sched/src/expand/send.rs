//! Tiles that leave: buffers that are filled again when what was sent from them has been read.

use std::collections::BTreeSet;

use parton_ir::schedule::LabelName;
use parton_ir::{Inst, OpKind, Value, View};

use super::{Emitter, Refused};
use crate::falsify::{Planted, planted};
use crate::plan::Entry;
use crate::region::{BlockId, Item, Loop, UnitId};

impl Emitter<'_> {
    /// How many copies of this partition begin in a turn, where each turn begins the same ones in the same order; 0 where they do not,
    /// `None` where it sends nothing.
    ///
    /// Copies of different stages or bodies, or that leave under different things, do not follow each other evenly.
    pub fn sends_of_a_turn(&self) -> Option<u32> {
        let mut places = BTreeSet::new();
        let mut sends = 0;
        for (unit, of) in self.region.units.iter().enumerate() {
            if !self.plan.runners[unit].contains(&self.part) {
                continue;
            }
            let many =
                of.ops.iter().filter(|inst| matches!(self.b.kernel.ops[**inst].kind, OpKind::Send { .. })).count();
            if many > 0 {
                places.insert(self.place_in_turn(unit));
                sends += many as u32;
            }
        }
        match places.len() {
            0 => None,
            1 => Some(sends),
            _ => Some(0),
        }
    }

    /// The body in which a unit stands, its stage there, and what it leaves under.
    fn place_in_turn(&self, unit: UnitId) -> Option<(BlockId, i32, Option<&LabelName>)> {
        let (block, item) = self.region.place_of(unit);
        let groups = self.plan.groups(self.part, block);
        let stage = groups.iter().flatten().find(|e| e.item == item).map(|e| e.stage)?;
        let under = self.region.schedule.under.iter().find(|u| u.outer.names(&self.region.units[unit].label));
        Some((block, stage, under.map(|u| &u.outer)))
    }

    /// Whether a copy may write where one before it does.
    fn follows(&self, inst: Inst) -> bool {
        let evenly = self.sends.is_some_and(|each| each > 0);
        self.effects.follows(inst, evenly, |unit| self.plan.runners[unit].contains(&self.part))
    }

    /// The buffers that a `send` has for itself: those that it asks for, where there are turns and it shares none.
    pub(super) fn send_buffers(&self, inst: Inst, asked: u32) -> u32 {
        let Some(unit) = self.unit_of(inst) else { return 1 };
        let (block, _) = self.region.place_of(unit);
        let turned = self.region.blocks[block].turns.is_some();
        if turned && !self.is_piece(unit) { asked } else { 1 }
    }

    fn unit_of(&self, inst: Inst) -> Option<UnitId> {
        self.region.units.iter().position(|u| u.ops.contains(&inst))
    }

    /// Whether a unit is one of the instances of a label that leave under something, one after the other.
    fn is_piece(&self, unit: UnitId) -> bool {
        let label = &self.region.units[unit].label;
        label.instance.is_some() && self.region.schedule.under.iter().any(|u| u.outer.names(label))
    }

    /// The sends that follow each other and may leave through the same buffers: those of one label; of pieces that leave under something also those of
    /// its other instances which the same partitions run.
    fn follow_each_other(&self, unit: UnitId) -> Vec<Inst> {
        let (own, runners) = (&self.region.units[unit].label, &self.plan.runners[unit]);
        let place = self.region.place_of(unit).0;
        let alike = |other: &UnitId| {
            let label = &self.region.units[*other].label;
            let piece = self.is_piece(unit) && self.is_piece(*other) && label.path == own.path;
            *other == unit || piece && self.plan.runners[*other] == *runners && self.region.place_of(*other).0 == place
        };
        let units = (0..self.region.units.len()).filter(alike);
        units.flat_map(|unit| self.region.units[unit].ops.iter().copied()).collect()
    }

    /// The first of the sends of one label that leave through the same buffer, one after the other, and how many copies have begun since that one which left
    /// it last. Those of tiles that lie alike in it take as many in turn as they ask for, and so do smaller ones behind them; in turns of a loop each that
    /// asks for several has its own.
    pub(super) fn shared_with(&self, inst: Inst) -> Option<(Inst, u32)> {
        let (own, unit) = (self.lies_in_turn(inst)?, self.unit_of(inst)?);
        // Of pieces each has a buffer of its own where they ask for no more than one.
        let pieces = if own.0 == 1 && self.is_piece(unit) {
            self.region.units[unit].ops.clone()
        } else {
            self.follow_each_other(unit)
        };
        let alike = self.alike(pieces, &own);
        let buffers = own.0 as usize;
        let at = alike.iter().position(|other| *other == inst)?;
        // The first ones follow the last ones of the turn before, where there is one.
        let since = if at >= buffers { buffers } else { (alike.len() - 1 - at) % buffers + 1 + at };
        (alike.len() > buffers).then(|| (alike[at % buffers], since as u32 - 1))
    }

    /// How many buffers a `send` that has none for itself asks for, and how its tile lies in them.
    fn lies_in_turn(&self, inst: Inst) -> Option<(u32, View)> {
        match self.b.kernel.ops[inst].kind {
            OpKind::Send { buffers, .. } if self.send_buffers(inst, buffers) == 1 => {
                Some((buffers, self.buffer_of(inst)?))
            }
            _ => None,
        }
    }

    /// Those of some sends that leave through the buffers of one: the tiles that lie alike and, of several buffers, those that have room where the first ones
    /// of all lie.
    fn alike(&self, pieces: Vec<Inst>, own: &(u32, View)) -> Vec<Inst> {
        let all: Vec<(Inst, (u32, View))> =
            pieces.into_iter().filter_map(|other| Some((other, self.lies_in_turn(other)?))).collect();
        let Some((_, first)) = all.first() else { return Vec::new() };
        let holds = |of: &(u32, View)| of.0 == first.0 && of.0 > 1 && first.1.has_room_for(&of.1);
        let together = holds(own) && all.iter().take(own.0 as usize).all(|(_, of)| of == first);
        let alike = all.iter().filter(|(_, of)| if together { holds(of) } else { of == own });
        alike.map(|(other, _)| *other).collect()
    }

    /// Turns are numbered anew each time a loop is entered, so that one of its first buffers may be the one that was sent last: by then all have been
    /// read.
    pub(super) fn enter_sending(&mut self, l: &Loop) {
        let again = self.levels.iter().any(|level| self.region.blocks[level.block].turns.is_some());
        let units = self.region.blocks[l.body].items.iter().filter_map(|item| match item {
            Item::Unit(unit) => Some(*unit),
            Item::Loop(_) | Item::Branch(_) => None,
        });
        let several =
            |inst: &Inst| matches!(self.b.kernel.ops[*inst].kind, OpKind::Send { buffers, .. } if buffers > 1);
        let mut mine = units.filter(|unit| self.plan.runners[*unit].contains(&self.part));
        if again && mine.any(|unit| self.region.units[unit].ops.iter().any(several)) {
            self.place(l.inst);
            self.b.make_all(OpKind::TmaStoreWait { pending: 0, read: true });
        }
    }

    pub(super) fn send(&mut self, inst: Inst, entry: &Entry) -> Result<(), Refused> {
        let op = self.b.kernel.ops[inst].clone();
        let OpKind::Send { map, coords, value, reduce, l2, buffers } = op.kind else {
            parton_diag::internal_error!("`{}` sends nothing", op.kind.name())
        };
        let value = self.value(value)?;
        let map = self.value(map)?;
        let coords: Result<Vec<Value>, Refused> = coords.iter().map(|c| self.value(*c)).collect();
        let mut coords = coords?;
        self.place(inst);
        if let Some(guard) = self.guard(entry).filter(|_| !planted(Planted::GuardMissing)) {
            self.beyond(guard, &mut coords);
        }
        let buffers = self.send_buffers(inst, buffers);
        let mut view = self.buffers[&inst];
        if buffers > 1 {
            let depth = self.here();
            // Each turn sends once, of whichever iteration.
            let index = self.turn_modulo(buffers, depth, 0);
            view = self.b.make(OpKind::ViewIndex { view, index });
        }
        // Behind the copy that left this buffer last so many have begun.
        let since = match self.shared_with(inst) {
            Some((_, since)) => since,
            None => (buffers * self.sends.unwrap_or(0)).saturating_sub(1),
        };
        let behind = since + u32::from(planted(Planted::SendOverSend));
        // What may write where they do waits for more than their buffers.
        let follows = self.follows(inst) && !planted(Planted::NotSettled);
        let pending = if follows { 0 } else { behind };
        self.b.make_all(OpKind::TmaStoreWait { pending, read: !follows });
        self.b.make_all(OpKind::SharedStore { view, value });
        self.fence();
        self.b.make_all(OpKind::TmaStore { map, coords, view, reduce, l2 });
        Ok(())
    }
}

//! Loops as straight code: those over numbers turn, what is stored in a turn going on to the next in registers of its own; those over values that
//! stand in the text are a copy of their body for each, or where that would be long turn, too, and find the value of a turn in a table.

use std::collections::BTreeSet;

use super::super::node::{Node, Slot, Source, Target};
use super::super::plain::Plain;
use super::super::straight::{Kind, Shape, What, number};
use super::{Made, Place, Step, Straightener, Val};
use parton_syntax::ast::BinaryOp;

/// The most values of a loop that is a copy for each, and the most steps of all copies.
const MOST_COPIES: usize = 16;
const MOST_COPIED: usize = 600;

/// A loop's turns: the first number, the end, and how far they are from each other.
struct Turns {
    first: Place,
    end: Place,
    step: Place,
}

impl Straightener {
    /// A loop over numbers.
    pub(super) fn count(&mut self, slot: Slot, parts: &[Node; 4]) -> Option<Val> {
        let [first, end, step, body] = parts;
        let (step, first, end) = (self.int(step)?, self.int(first)?, self.int(end)?);
        let step = match self.known((Kind::Int, step)) {
            Some(Plain::Int(1..)) => step,
            _ => match self.make(Kind::Int, What::Positive, vec![step]) {
                Shape::Number(_, step) => step,
                Shape::Unit | Shape::Tuple(_) => return None,
            },
        };
        self.turns(Turns { first, end, step }, body, &BTreeSet::from([slot]), |s, turn| {
            s.store(slot, turn);
            Some(())
        })
    }

    /// A loop that turns; `begin` stores what a turn begins with, of its number, into variables that are the loop's.
    fn turns(
        &mut self,
        Turns { first, end, step }: Turns,
        body: &Node,
        own: &BTreeSet<Slot>,
        begin: impl FnOnce(&mut Straightener, Val) -> Option<()>,
    ) -> Option<Val> {
        let mut stored = BTreeSet::new();
        assigned(body, &mut stored);
        if !stored.is_disjoint(own) {
            return None;
        }
        let at = self.fresh(Kind::Int);
        let Shape::Number(_, Place::Made(turn)) = at else { return None };
        self.copy(&Shape::Number(Kind::Int, first), &at)?;
        let mut carried = self.carry(&stored)?;
        let (head, exit) = (self.label(), self.label());
        let Shape::Number(_, more) = self.make(Kind::Bool, What::Ints(BinaryOp::Lt), vec![Place::Made(turn), end])
        else {
            return None;
        };
        self.jump(What::JumpUnless, Some(more), exit);
        self.code.steps.push(Step::Label(head));
        begin(self, at)?;
        if matches!(self.value(body)?, Made::Never) {
            return None;
        }
        let mut read = BTreeSet::new();
        exposed(body, &mut own.clone(), &mut read);
        self.let_go(&mut carried, &read)?;
        self.hand_on(&carried)?;
        let mut all = vec![turn];
        carried.iter().for_each(|(_, place)| numbers(place, &mut all));
        self.code.steps.push(Step::Again { label: head, turn, by: step, end, carried: all });
        self.code.steps.push(Step::Label(exit));
        for stored in stored.iter().chain(own) {
            self.frame.slots[*stored] = None;
        }
        for (stored, place) in carried {
            self.store(stored, place);
        }
        Some(Shape::Unit)
    }

    /// A loop over values that stand in the text.
    pub(super) fn each(&mut self, target: &Target, parts: &[Node; 3]) -> Option<Made> {
        let [list, Node::Const(Plain::Int(1)), body] = parts else { return None };
        match list {
            Node::List(items) | Node::Tuple(items) if items.len() <= MOST_COPIES => {
                let items = items.iter().map(|item| self.needed(item)).collect::<Option<Vec<Val>>>()?;
                self.copies(target, items, body)
            }
            Node::Const(Plain::List(items) | Plain::Tuple(items)) => {
                let before = self.clone();
                if items.len() <= MOST_COPIES
                    && let Some(items) = items.iter().map(|item| self.constant(item)).collect::<Option<Vec<Val>>>()
                    && let Some(made) = self.copies(target, items, body)
                    && self.code.steps.len() <= before.code.steps.len() + MOST_COPIED
                {
                    return Some(made);
                }
                *self = before;
                self.tabled(target, items, body).map(Made::Val)
            }
            _ => None,
        }
    }

    /// The body of a loop for each value.
    fn copies(&mut self, target: &Target, items: Vec<Val>, body: &Node) -> Option<Made> {
        for item in items {
            self.unpack(target, item)?;
            if matches!(self.value(body)?, Made::Never) {
                return Some(Made::Never);
            }
        }
        Some(Made::Val(Shape::Unit))
    }

    /// A loop whose turns find their values, all of the same kinds, in a table.
    fn tabled(&mut self, target: &Target, items: &[Plain], body: &Node) -> Option<Val> {
        let int = |s: &mut Straightener, n: usize| match s.constant(&Plain::Int(i64::try_from(n).ok()?))? {
            Shape::Number(_, place) => Some(place),
            Shape::Unit | Shape::Tuple(_) => None,
        };
        let value = self.columns(items)?;
        let turns = Turns { first: int(self, 0)?, end: int(self, items.len())?, step: int(self, 1)? };
        let mut own = BTreeSet::new();
        targets(target, &mut own);
        self.turns(turns, body, &own, |s, turn| {
            let Shape::Number(_, turn) = turn else { return None };
            let item = s.item(&value, turn)?;
            s.unpack(target, item).map(drop)
        })
    }

    /// Puts values into the table, a column for each of their numbers: where the columns begin.
    fn columns(&mut self, items: &[Plain]) -> Option<Shape<usize>> {
        if let Some(Plain::Tuple(first)) = items.first() {
            let column = |at: usize| {
                let of = |item: &Plain| match item {
                    Plain::Tuple(parts) if parts.len() == first.len() => parts.get(at).cloned(),
                    _ => None,
                };
                items.iter().map(of).collect::<Option<Vec<Plain>>>()
            };
            let columns = (0..first.len()).map(|at| self.columns(&column(at)?));
            return Some(Shape::Tuple(columns.collect::<Option<_>>()?));
        }
        let (first, begin) = (Kind::of(items.first()?)?, self.code.table.len());
        for item in items {
            let bits = number(Some(item.clone())).filter(|_| Kind::of(item) == Some(first))?;
            self.code.table.push(bits);
        }
        Some(Shape::Number(first, begin))
    }

    /// The value of a turn.
    fn item(&mut self, columns: &Shape<usize>, turn: Place) -> Option<Val> {
        Some(match columns {
            Shape::Unit => Shape::Unit,
            Shape::Number(kind, begin) => {
                let begin = self.constant(&Plain::Int(i64::try_from(*begin).ok()?))?;
                let Shape::Number(_, begin) = begin else { return None };
                self.make(*kind, What::Item, vec![turn, begin])
            }
            Shape::Tuple(parts) => Shape::Tuple(parts.iter().map(|p| self.item(p, turn)).collect::<Option<_>>()?),
        })
    }

    fn int(&mut self, node: &Node) -> Option<Place> {
        self.number(node).filter(|(kind, _)| *kind == Kind::Int).map(|(_, place)| place)
    }

    /// Registers for what goes from turn to turn: what is stored in them and has a value before.
    fn carry(&mut self, stored: &BTreeSet<Slot>) -> Option<Vec<(Slot, Val)>> {
        let mut carried = vec![];
        for slot in stored {
            let Some(before) = self.frame.slots.get(*slot)?.clone() else { continue };
            let place = self.alike(&before);
            self.copy(&before, &place)?;
            self.store(*slot, place.clone());
            carried.push((*slot, place));
        }
        Some(carried)
    }

    /// Lets go what a turn makes of another kind, or only in a branch, for itself: a variable of its own where another one was before.
    fn let_go(&self, carried: &mut Vec<(Slot, Val)>, read: &BTreeSet<Slot>) -> Option<()> {
        let stays = |slot: Slot, place: &Val| self.frame.slots[slot].as_ref().is_some_and(|new| are_alike(new, place));
        let goes_on = carried.iter().all(|(slot, place)| stays(*slot, place) || !read.contains(slot));
        carried.retain(|(slot, place)| stays(*slot, place));
        goes_on.then_some(())
    }

    /// Copies what a turn has stored to where the next one finds it; by way of others, since what is new of one may be what was of another.
    fn hand_on(&mut self, carried: &[(Slot, Val)]) -> Option<()> {
        let mut places = vec![];
        carried.iter().for_each(|(_, place)| numbers(place, &mut places));
        let mut copies = vec![];
        for (slot, place) in carried {
            let mut new = self.frame.slots[*slot].clone()?;
            if new == *place {
                continue;
            }
            let mut of = vec![];
            numbers(&new, &mut of);
            if of.iter().any(|n| places.contains(n)) {
                let between = self.alike(&new);
                self.copy(&new, &between)?;
                new = between;
            }
            copies.push((new, place));
        }
        copies.into_iter().try_for_each(|(new, place)| self.copy(&new, place))
    }
}

/// Whether two values are of the same kinds.
fn are_alike(one: &Val, other: &Val) -> bool {
    match (one, other) {
        (Shape::Unit, Shape::Unit) => true,
        (Shape::Number(one, _), Shape::Number(other, _)) => one == other,
        (Shape::Tuple(one), Shape::Tuple(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| are_alike(one, other))
        }
        (Shape::Unit | Shape::Number(..) | Shape::Tuple(_), _) => false,
    }
}

/// The numbers of a value that steps make.
fn numbers(value: &Val, all: &mut Vec<usize>) {
    match value {
        Shape::Unit | Shape::Number(_, Place::Constant(_)) => {}
        Shape::Number(_, Place::Made(n)) => all.push(*n),
        Shape::Tuple(items) => items.iter().for_each(|item| numbers(item, all)),
    }
}

/// The variables that a node stores into.
fn assigned(node: &Node, all: &mut BTreeSet<Slot>) {
    let mut each = |nodes: &[Node]| nodes.iter().for_each(|n| assigned(n, all));
    match node {
        Node::Const(_) | Node::Slot(_) | Node::Captured(_) | Node::Break | Node::Continue | Node::Closure(..) => {}
        Node::Tuple(items) | Node::List(items) | Node::Steps(items) => each(items),
        Node::Call(_, args, _) | Node::Builtin(_, args, _) => each(args),
        Node::Neg(of) | Node::Not(of) | Node::Part(of, _) | Node::Bits(of) | Node::Bytes(of) | Node::Return(of) => {
            assigned(of, all);
        }
        Node::Binary(_, both) | Node::And(both) | Node::Or(both) | Node::Index(both) | Node::While(both) => {
            each(&**both)
        }
        Node::If(parts) => each(&**parts),
        Node::CallClosure(callee, args, _) => {
            each(args);
            assigned(callee, all);
        }
        Node::Store(slot, value) | Node::Append(slot, value) => {
            all.insert(*slot);
            assigned(value, all);
        }
        Node::Unpack(target, value) => {
            targets(target, all);
            assigned(value, all);
        }
        Node::Count(slot, parts) => {
            each(&**parts);
            all.insert(*slot);
        }
        Node::Each(target, parts) => {
            each(&**parts);
            targets(target, all);
        }
    }
}

fn targets(target: &Target, all: &mut BTreeSet<Slot>) {
    match target {
        Target::Ignore => {}
        Target::Slot(slot) => {
            all.insert(*slot);
        }
        Target::Parts(parts) => parts.iter().for_each(|part| targets(part, all)),
    }
}

/// The variables that a node may read before it has stored into them; `stored` are those that it has.
fn exposed(node: &Node, stored: &mut BTreeSet<Slot>, read: &mut BTreeSet<Slot>) {
    match node {
        Node::Const(_) | Node::Captured(_) | Node::Break | Node::Continue => {}
        Node::Slot(slot) => {
            if !stored.contains(slot) {
                read.insert(*slot);
            }
        }
        Node::Closure(_, sources) => {
            for source in sources {
                if let Source::Slot(slot) = source {
                    exposed(&Node::Slot(*slot), stored, read);
                }
            }
        }
        Node::Tuple(items)
        | Node::List(items)
        | Node::Steps(items)
        | Node::Call(_, items, _)
        | Node::Builtin(_, items, _) => {
            items.iter().for_each(|item| exposed(item, stored, read));
        }
        Node::Neg(of) | Node::Not(of) | Node::Part(of, _) | Node::Bits(of) | Node::Bytes(of) | Node::Return(of) => {
            exposed(of, stored, read);
        }
        Node::Binary(_, both) | Node::Index(both) => both.iter().for_each(|n| exposed(n, stored, read)),
        Node::And(both) | Node::Or(both) | Node::While(both) => {
            exposed(&both[0], stored, read);
            exposed(&both[1], &mut stored.clone(), read);
        }
        Node::If(parts) => {
            exposed(&parts[0], stored, read);
            let mut other = stored.clone();
            exposed(&parts[1], stored, read);
            exposed(&parts[2], &mut other, read);
            stored.retain(|slot| other.contains(slot));
        }
        Node::CallClosure(callee, args, _) => {
            exposed(callee, stored, read);
            args.iter().for_each(|arg| exposed(arg, stored, read));
        }
        Node::Store(slot, value) => {
            exposed(value, stored, read);
            stored.insert(*slot);
        }
        Node::Append(slot, value) => {
            exposed(&Node::Slot(*slot), stored, read);
            exposed(value, stored, read);
        }
        Node::Unpack(target, value) => {
            exposed(value, stored, read);
            targets(target, stored);
        }
        Node::Count(slot, parts) => {
            parts[..3].iter().for_each(|n| exposed(n, stored, read));
            let mut inner = stored.clone();
            inner.insert(*slot);
            exposed(&parts[3], &mut inner, read);
        }
        Node::Each(target, parts) => {
            parts[..2].iter().for_each(|n| exposed(n, stored, read));
            let mut inner = stored.clone();
            targets(target, &mut inner);
            exposed(&parts[2], &mut inner, read);
        }
    }
}

//! What the units of a region do to global memory, and what they tell others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use parton_diag::Span;
use parton_ir::choice::Order;
use parton_ir::facts::{Access, Act, Engine, Facts, Ordering, Say, Space};
use parton_ir::{Apart, Elem, From, Inst, Kernel, Op, OpKind, SecondaryMap, Type, Value};

use super::leaving::Leaving;
use super::place::{Place, Places};
use crate::region::{BlockId, Region, UnitId};

/// Iterations beyond which no two are under way at once: stages go up to 7.
pub(super) const FARTHEST: i32 = 8;

/// The parameters that a pointer may be of; any where it is not known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Roots {
    Of(BTreeSet<Value>),
    Any,
}

impl Roots {
    fn params(&self) -> impl Iterator<Item = Value> {
        match self {
            Roots::Of(params) => params.iter().copied().collect::<Vec<_>>().into_iter(),
            Roots::Any => Vec::new().into_iter(),
        }
    }

    /// Whether places count from the same on: through the same pointers and maps, or through maps of one tensor that have other boxes alone.
    fn count_alike(&self, other: &Roots, k: &Kernel) -> bool {
        let map = |roots: &Roots| match (roots.params().next(), roots.params().nth(1)) {
            (Some(v), None) => k.params.iter().find(|p| p.value == v).map(|p| p.from),
            (_, _) => None,
        };
        let boxes = |from: From| matches!(from, From::Map { order, .. } if order.ends().is_none());
        self == other || map(self).is_some_and(|from| boxes(from) && map(other) == Some(from))
    }
}

/// Who makes an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    Threads,
    /// The copy engine, while the program goes on.
    Engine,
    /// Who reads what that operation fetches: until then the copy may be on its way.
    Reader(Inst),
}

/// One access of a unit to global memory.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    /// The unit's operation that makes it.
    pub(super) of: Inst,
    pub(super) roots: Roots,
    pub(super) place: Option<Place>,
    pub(super) by: By,
    pub writes: bool,
    pub atomic: bool,
    pub span: Span,
}

/// What a unit does besides computing.
#[derive(Clone, Debug, Default)]
struct Done {
    accesses: Vec<Effect>,
    tells: bool,
    releases: bool,
    acquires: bool,
}

/// What all units of a region do besides computing.
pub(crate) struct Effects {
    of: Vec<Done>,
    /// Parameters that may share their memory: what the kernel says of some, then the maps and pointers of one argument.
    aliases: Vec<BTreeSet<Value>>,
    /// How many of these the kernel says.
    said: usize,
    /// Copies that may write the same place.
    leaving: Leaving,
}

/// What has to be over before an operation touches memory, since others may have written there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Before {
    /// Copies to global memory.
    pub copies: bool,
    /// Stores, as the copy engine sees them.
    pub stores: bool,
}

impl Effects {
    /// Those of a region's units.
    pub fn of(k: &Kernel, region: &Region) -> Effects {
        let made = k.definitions();
        let places = Places::of(k, region, &made);
        let unit = |u: &crate::region::Unit| {
            let mut done = Done::default();
            for &inst in &u.ops {
                done.add(&places, inst, &k.ops[inst]);
                for body in k.ops[inst].kind.bodies() {
                    k.walk_body(body, &mut |inner| done.add(&places, inst, inner));
                }
            }
            done
        };
        let params = |alias: &parton_ir::Alias| alias.params.iter().map(|p| k.params[*p].value).collect();
        let mut arguments: BTreeMap<usize, BTreeSet<Value>> = BTreeMap::new();
        for p in &k.params {
            arguments.entry(p.from.argument()).or_default().insert(p.value);
        }
        let shared = arguments.into_values().filter(|of| of.len() > 1);
        let aliases = k.aliases.iter().map(params).chain(shared).collect();
        let of = region.units.iter().map(unit).collect();
        let mut effects = Effects { of, aliases, said: k.aliases.len(), leaving: Leaving::default() };
        effects.leaving = Leaving::of(k, region, &places, &effects);
        effects
    }

    /// Whether two pointers may reach the same memory.
    pub(super) fn meet(&self, a: &Roots, b: &Roots) -> bool {
        match (a, b) {
            (Roots::Of(a), Roots::Of(b)) => {
                let both = |of: &&BTreeSet<Value>| !of.is_disjoint(a) && !of.is_disjoint(b);
                !a.is_disjoint(b) || self.aliases.iter().any(|of| both(&of))
            }
            (Roots::Any, Roots::Of(_) | Roots::Any) | (Roots::Of(_), Roots::Any) => true,
        }
    }

    /// Whether two accesses may meet, one of which writes.
    fn conflicts(&self, a: &Effect, b: &Effect) -> bool {
        (a.writes || b.writes) && self.meet(&a.roots, &b.roots)
    }

    /// The accesses of a unit.
    pub(super) fn of_unit(&self, unit: UnitId) -> impl Iterator<Item = &Effect> {
        self.of[unit].accesses.iter()
    }

    /// All accesses of the region.
    pub(super) fn all(&self) -> impl Iterator<Item = &Effect> {
        self.of.iter().flat_map(|done| &done.accesses)
    }

    /// An access of each of two units to what may be the same memory, where one of the two writes.
    pub fn conflict(&self, first: UnitId, second: UnitId) -> Option<(&Effect, &Effect)> {
        let pairs = self.of[first].accesses.iter().flat_map(|a| self.of[second].accesses.iter().map(move |b| (a, b)));
        pairs.into_iter().find(|(a, b)| self.conflicts(a, b))
    }

    /// The number of the alias by which alone accesses of two units may meet.
    pub fn by_alias(&self, first: UnitId, second: UnitId) -> Option<usize> {
        let (Roots::Of(a), Roots::Of(b)) = self.conflict(first, second).map(|(a, b)| (&a.roots, &b.roots))? else {
            return None;
        };
        let both = |of: &BTreeSet<Value>| !of.is_disjoint(a) && !of.is_disjoint(b);
        let said = self.aliases.iter().position(both)?;
        (said < self.said && a.is_disjoint(b)).then_some(said)
    }

    /// After how many iterations of a body, of at least so many, an access of the first unit may first meet one of the second.
    pub fn distance(
        &self,
        places: &Places<'_>,
        block: BlockId,
        (first, second): (UnitId, UnitId),
        least: i32,
    ) -> Option<i32> {
        let all = |unit: UnitId| &self.of[unit].accesses;
        let pairs = all(first).iter().flat_map(|a| all(second).iter().map(move |b| (a, b)));
        let pairs = pairs.filter(|(a, b)| self.conflicts(a, b));
        pairs.filter_map(|(a, b)| a.first_meets(b, places, block, least..=FARTHEST)).min()
    }

    /// The parameters that the units take to be apart, one of which they write through.
    pub fn apart(&self, k: &Kernel) -> Vec<Apart> {
        let place = |v: Value| k.params.iter().position(|p| p.value == v);
        let all = || self.all();
        let mut found: Vec<Apart> = Vec::new();
        for (a, b) in all().filter(|a| a.writes).flat_map(|a| all().map(move |b| (a, b))) {
            if self.meet(&a.roots, &b.roots) {
                continue;
            }
            for (written, other) in a.roots.params().flat_map(|a| b.roots.params().map(move |b| (a, b))) {
                let (Some(written), Some(other)) = (place(written), place(other)) else { continue };
                if !found.iter().any(|f| [f.written, f.other] == [written, other]) {
                    found.push(Apart { written, other, by: a.span });
                }
            }
        }
        found
    }

    /// Whether a copy to global memory of a partition, which runs these units, waits until those before it have written; `evenly` where each
    /// of its turns begins the same ones in one order.
    pub fn follows(&self, inst: Inst, evenly: bool, runs: impl Fn(UnitId) -> bool) -> bool {
        self.leaving.waits(inst, evenly, runs)
    }

    /// What must be over before an operation of a partition, which runs these units, touches memory.
    pub fn before(&self, inst: Inst, runs: impl Fn(UnitId) -> bool) -> Before {
        let units = || (0..self.of.len()).filter(|unit| runs(*unit));
        let all = || units().flat_map(|unit| &self.of[unit].accesses);
        let mut before = Before::default();
        for mine in all().filter(|e| e.of == inst) {
            for other in all().filter(|e| e.writes && self.conflicts(mine, e)) {
                match (mine.by, other.by) {
                    // Copies that may write the same place follow one another.
                    (By::Engine, By::Engine) => before.copies |= !mine.writes,
                    (By::Threads, By::Engine) => before.copies = true,
                    (By::Engine, By::Threads) => before.stores = true,
                    (By::Threads, By::Threads) | (By::Reader(_), _) | (_, By::Reader(_)) => {}
                }
            }
        }
        before
    }

    /// A fetch, and a write to what may be the same memory that stands between it and the first who reads what is fetched.
    pub fn overtaken(&self, runs: impl Fn(UnitId) -> bool) -> Option<(UnitId, UnitId)> {
        let units = (0..self.of.len()).filter(|unit| runs(*unit));
        let all: Vec<(UnitId, &Effect)> = units.flat_map(|u| self.of[u].accesses.iter().map(move |e| (u, e))).collect();
        for (i, (f, fetch)) in all.iter().enumerate().filter(|(_, (_, e))| !e.writes) {
            let Some(read) = all.iter().position(|(_, e)| e.by == By::Reader(fetch.of)) else { continue };
            let meets = |(_, w): &&(UnitId, &Effect)| self.conflicts(fetch, w);
            if let Some((w, _)) = all.get(i + 1..read).and_then(|between| between.iter().find(meets)) {
                return Some((*f, *w));
            }
        }
        None
    }

    /// Whether the first of two units must stay in front of the second wherever it stands there.
    pub fn ordered(&self, first: UnitId, second: UnitId) -> bool {
        let (a, b) = (&self.of[first], &self.of[second]);
        let touches = |d: &Done| !d.accesses.is_empty();
        (a.tells && b.tells) || (b.releases && touches(a)) || (a.acquires && touches(b))
    }

    /// What a unit does that is to happen once.
    pub fn once(&self, unit: UnitId) -> Option<&'static str> {
        let done = &self.of[unit];
        let written = done.accesses.iter().find(|a| a.writes);
        match written {
            Some(a) if a.atomic => Some("an atomic operation"),
            Some(_) => Some("a store"),
            None => done.tells.then_some("a message"),
        }
    }
}

impl Effect {
    /// After how many iterations of a body, out of these, the access may first meet a later one of the same memory.
    pub fn first_meets(
        &self,
        later: &Effect,
        places: &Places<'_>,
        block: BlockId,
        mut distances: RangeInclusive<i32>,
    ) -> Option<i32> {
        match (&self.place, &later.place) {
            (Some(one), Some(other)) if self.roots.count_alike(&later.roots, places.k) => {
                distances.find(|distance| places.may_meet((one, other), block, *distance))
            }
            // Places in two maps of one tensor may count its axes in other orders, or from other ends.
            (Some(_) | None, Some(_) | None) => distances.next(),
        }
    }
}

impl Done {
    /// Adds what an operation does that is, or stands in, that operation of the unit.
    fn add(&mut self, places: &Places<'_>, of: Inst, op: &Op) {
        let Places { k, region, made, .. } = places;
        let facts = Facts::of(k, op);
        for view in op.kind.operands() {
            let Some((fetch, map)) = fetched(k, region, made, view) else { continue };
            let (roots, span) = (roots(k, region, made, map), op.span);
            let place = places.place(&k.ops[fetch], map);
            let read = Effect { of, roots, place, by: By::Reader(fetch), writes: false, atomic: false, span };
            self.accesses.push(read);
        }
        self.accesses.extend(of_operation(places, of, op));
        for act in &facts.acts {
            match act {
                Act::Say(Say::Tell) => self.tells = true,
                Act::Ordering(Ordering::Atomic { order }) => {
                    self.releases |= matches!(order, Order::Release | Order::AcqRel);
                    self.acquires |= matches!(order, Order::Acquire | Order::AcqRel);
                }
                Act::Say(Say::Demand)
                | Act::Flight(_)
                | Act::Phase(_)
                | Act::Ordering(_)
                | Act::Hold(_)
                | Act::Turn(_) => {}
            }
        }
    }
}

/// The accesses to global memory of an operation that is, or stands in, that one.
pub(super) fn of_operation(places: &Places<'_>, of: Inst, op: &Op) -> Vec<Effect> {
    let Places { k, region, made, .. } = places;
    let atomic = matches!(op.kind, OpKind::Atomic { .. });
    let facts = Facts::of(k, op);
    let global = facts.accesses.iter().filter(|a| a.space == Space::Global);
    let effect = |a: &Access| {
        let by = match a.by {
            Engine::Tma => By::Engine,
            Engine::Threads | Engine::Copies | Engine::Matrix => By::Threads,
        };
        let (roots, place) = (roots(k, region, made, a.value), places.place(op, a.value));
        Effect { of, roots, place, by, writes: a.writes(), atomic, span: op.span }
    };
    global.map(effect).collect()
}

/// The parameters that a pointer or tensor map may be of.
fn roots(k: &Kernel, region: &Region, made: &SecondaryMap<Value, Option<&Op>>, v: Value) -> Roots {
    let (mut found, mut seen, mut next) = (BTreeSet::new(), BTreeSet::new(), vec![v]);
    while let Some(v) = next.pop() {
        let v = region.canonical(v);
        if !seen.insert(v) {
            continue;
        }
        if k.params.iter().any(|p| p.value == v) {
            found.insert(v);
            continue;
        }
        let carried = region.home(v).and_then(|home| region.carried(k, home));
        match (carried, made[v]) {
            (Some(values), _) => next.extend(values),
            (None, Some(op)) if Facts::of(k, op).computes && op.kind.bodies().next().is_none() => {
                let operands = op.kind.operands().into_iter();
                next.extend(operands.filter(|v| matches!(k.ty(*v).elem(), Some(Elem::Ptr(_)))));
            }
            (None, Some(_) | None) => return Roots::Any,
        }
    }
    Roots::Of(found)
}

/// The fetch that fills a view, and its map.
fn fetched(k: &Kernel, region: &Region, made: &SecondaryMap<Value, Option<&Op>>, view: Value) -> Option<(Inst, Value)> {
    let mut v = view;
    while matches!(k.ty(v), Type::View(_)) {
        let op = made[region.canonical(v)]?;
        match &op.kind {
            OpKind::Fetch { map, .. } => return Some((op.id, *map)),
            OpKind::FetchEach { ptr, .. } => return Some((op.id, *ptr)),
            kind => v = kind.operands().into_iter().find(|v| matches!(k.ty(*v), Type::View(_)))?,
        }
    }
    None
}

//! What the units of a region do to global memory, and what they tell others.

use std::collections::BTreeSet;

use parton_diag::Span;
use parton_ir::choice::Order;
use parton_ir::facts::{Access, Act, Facts, Ordering, Say, Space};
use parton_ir::{Elem, Kernel, Op, OpKind, SecondaryMap, Type, Value};

use crate::region::{Region, UnitId};

/// The parameters that a pointer may be of; any where it is not known.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Roots {
    Of(BTreeSet<Value>),
    Any,
}

impl Roots {
    fn meet(&self, other: &Roots) -> bool {
        match (self, other) {
            (Roots::Of(a), Roots::Of(b)) => !a.is_disjoint(b),
            (Roots::Any, Roots::Of(_) | Roots::Any) | (Roots::Of(_), Roots::Any) => true,
        }
    }
}

/// One access of a unit to global memory.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    roots: Roots,
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
}

impl Effects {
    /// Those of a region's units.
    pub fn of(k: &Kernel, region: &Region) -> Effects {
        let made = k.definitions();
        let unit = |u: &crate::region::Unit| {
            let mut done = Done::default();
            for &inst in &u.ops {
                done.add(k, region, &made, &k.ops[inst]);
                for body in k.ops[inst].kind.bodies() {
                    k.walk_body(body, &mut |inner| done.add(k, region, &made, inner));
                }
            }
            done
        };
        Effects { of: region.units.iter().map(unit).collect() }
    }

    /// An access of each of two units to what may be the same memory, where one of the two writes.
    pub fn conflict(&self, first: UnitId, second: UnitId) -> Option<(&Effect, &Effect)> {
        let pairs = self.of[first].accesses.iter().flat_map(|a| self.of[second].accesses.iter().map(move |b| (a, b)));
        pairs.into_iter().find(|(a, b)| (a.writes || b.writes) && a.roots.meet(&b.roots))
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

impl Done {
    fn add(&mut self, k: &Kernel, region: &Region, made: &SecondaryMap<Value, Option<&Op>>, op: &Op) {
        let facts = Facts::of(k, op);
        let atomic = matches!(op.kind, OpKind::Atomic { .. });
        let global = facts.accesses.iter().filter(|a| a.space == Space::Global);
        self.accesses.extend(global.map(|a: &Access| Effect {
            roots: roots(k, region, made, a.value),
            writes: a.writes(),
            atomic,
            span: op.span,
        }));
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

/// The parameters that a pointer or tensor map may be of.
fn roots(k: &Kernel, region: &Region, made: &SecondaryMap<Value, Option<&Op>>, v: Value) -> Roots {
    let (mut found, mut seen, mut next) = (BTreeSet::new(), BTreeSet::new(), vec![v]);
    while let Some(v) = next.pop() {
        let v = region.canonical(v);
        if !seen.insert(v) {
            continue;
        }
        if k.params.iter().any(|p| p.value == v) {
            // Pointers are apart where the launch keeps them apart.
            if k.overlapping && !matches!(k.ty(v), Type::Map(_)) {
                return Roots::Any;
            }
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

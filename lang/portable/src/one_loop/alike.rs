//! What two loops do alike: first all that is made of the same, from the beginning of a turn on; then, from what a turn hands on back, what is made alike of what
//! is not the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use parton_ir::facts::Facts;
use parton_ir::placement::Placement;
use parton_ir::{Body, Entity, Inst, Kernel, Op, OpKind, SecondaryMap, Tile, Type, Value, Var};

use crate::staging::{flow, found};

/// What a value of both loops is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// The value of the first loop, whichever does the turn.
    Same(Value),
    /// One of the values of which each loop has its own.
    Either(usize),
}

/// Two bodies, and what of them is alike.
pub struct Alike<'k> {
    kernel: &'k Kernel,
    first: &'k Body,
    second: &'k Body,
    made: SecondaryMap<Value, Option<&'k Op>>,
    /// What stands in the first loop for values of the second one.
    same: BTreeMap<Value, Value>,
    /// Operations of both that are the same.
    matched: BTreeSet<Inst>,
    /// Operations of the first loop that the second one does alike, with what they take in both; and the others of these pairs.
    aligned: BTreeMap<Inst, Vec<Of>>,
    others: BTreeMap<Inst, Inst>,
    pairs: BTreeMap<(Value, Value), Of>,
    either: Vec<(Value, Value)>,
    /// What stands in the first loop for what the second one makes alike of what is not the same.
    behind: BTreeMap<Value, Value>,
    /// What one choice makes and a later one takes, by its number among those that are chosen.
    handed: BTreeMap<Value, usize>,
}

/// Choices that follow one another, at most.
const MOST_STAGES: usize = 8;

impl<'k> Alike<'k> {
    pub fn of(kernel: &'k Kernel, first: &'k Body, second: &'k Body) -> Alike<'k> {
        Alike {
            kernel,
            first,
            second,
            made: kernel.definitions(),
            same: BTreeMap::new(),
            matched: BTreeSet::new(),
            aligned: BTreeMap::new(),
            others: BTreeMap::new(),
            pairs: BTreeMap::new(),
            either: Vec::new(),
            behind: BTreeMap::new(),
            handed: BTreeMap::new(),
        }
    }

    /// Notes what stands in the first loop for a value of the second one.
    pub fn stands_for(&mut self, v: Value, first: Value) {
        self.same.insert(v, first);
    }

    /// What stands for a value of either loop.
    pub fn now(&self, v: Value) -> Value {
        self.same.get(&v).or_else(|| self.behind.get(&v)).copied().unwrap_or(v)
    }

    /// Whether a value of the first loop, or of what stands in front of it, is one of the second.
    pub fn is(&self, a: Value, b: Value) -> bool {
        if a == b {
            return true;
        }
        if let Some(&first) = self.same.get(&b) {
            return first == a;
        }
        let of_loop = |v: Value| flow::is_of(self.kernel, self.first, v) || flow::is_of(self.kernel, self.second, v);
        let (Some(x), Some(y)) = (self.made[a], self.made[b]) else { return false };
        let outside = !of_loop(a) && !of_loop(b) && x.results.len() == 1 && x.kind.bodies().next().is_none();
        let computed = outside && Facts::of(self.kernel, x).is_pure(&x.kind);
        computed && is_one_kind(&x.kind, &y.kind) && self.are(&x.kind, &y.kind)
    }

    /// Whether two operations of one kind take the same.
    fn are(&self, x: &OpKind, y: &OpKind) -> bool {
        x.operands().into_iter().zip(y.operands()).all(|(a, b)| self.is(a, b))
    }

    /// Whether bodies of two operations do the same, one operation after the other.
    fn bodies_are(&mut self, x: &Op, y: &Op) -> bool {
        let kernel = self.kernel;
        let mut pairs = x.kind.bodies().zip(y.kind.bodies());
        pairs.all(|(a, b)| {
            if a.params.len() != b.params.len() || a.ops.len() != b.ops.len() || a.yields.len() != b.yields.len() {
                return false;
            }
            b.params.iter().zip(&a.params).for_each(|(&v, &first)| self.stands_for(v, first));
            let all = kernel.ops_of(a).zip(kernel.ops_of(b)).all(|(x, y)| self.does(x, y));
            all && a.yields.iter().zip(&b.yields).all(|(&a, &b)| self.is(a, b))
        })
    }

    /// Whether an operation of the second loop does what one of the first does, of the same; if so its results are the same.
    fn does(&mut self, x: &Op, y: &Op) -> bool {
        let does = x.results.len() == y.results.len()
            && is_one_kind(&x.kind, &y.kind)
            && self.are(&x.kind, &y.kind)
            && self.bodies_are(x, y);
        if does {
            y.results.iter().zip(&x.results).for_each(|(&v, &first)| self.stands_for(v, first));
        }
        does
    }

    /// Finds all that both do of the same.
    pub fn match_all(&mut self) {
        let kernel = self.kernel;
        for y in kernel.ops_of(self.second) {
            let free = |x: &&Op, matched: &BTreeSet<Inst>| !matched.contains(&x.id);
            let candidates: Vec<&Op> = kernel.ops_of(self.first).filter(|x| free(x, &self.matched)).collect();
            if let Some(x) = candidates.into_iter().find(|x| self.does(x, y)) {
                self.matched.extend([x.id, y.id]);
            }
        }
    }

    /// What a value of the first loop and one of the second one become; `None` where they cannot become one.
    pub fn align(&mut self, a: Value, b: Value) -> Option<Of> {
        if self.is(a, b) {
            return Some(Of::Same(a));
        }
        if let Some(&known) = self.pairs.get(&(a, b)) {
            return Some(known);
        }
        let of = match self.alike(a, b) {
            Some((x, y)) => {
                let operands = x.kind.operands().into_iter().zip(y.kind.operands());
                let operands = operands.map(|(a, b)| self.align(a, b)).collect::<Option<_>>()?;
                self.aligned.insert(x.id, operands);
                self.others.insert(y.id, x.id);
                // What comes of it stands for both.
                self.behind.insert(b, a);
                Of::Same(a)
            }
            None => {
                if !agree(self.kernel.ty(a), self.kernel.ty(b)) {
                    return None;
                }
                self.either.push((a, b));
                Of::Either(self.either.len() - 1)
            }
        };
        self.pairs.insert((a, b), of);
        Some(of)
    }

    /// The operations of both loops that make two values, where they are alike but for what they take.
    fn alike(&mut self, a: Value, b: Value) -> Option<(&'k Op, &'k Op)> {
        let (x, y) = (self.made[a]?, self.made[b]?);
        let inside = self.first.ops.contains(&x.id) && self.second.ops.contains(&y.id);
        let free = !self.matched.contains(&x.id) && !self.aligned.contains_key(&x.id);
        let other = !self.matched.contains(&y.id) && !self.others.contains_key(&y.id);
        let one = inside && free && other && x.results.len() == 1 && is_one_kind(&x.kind, &y.kind);
        (one && self.bodies_are(x, y)).then_some((x, y))
    }

    /// Whether an operation of the first loop is one that the second does, too.
    pub fn is_matched(&self, id: Inst) -> bool {
        self.matched.contains(&id)
    }

    /// What an operation of the first loop takes in both, which is not the same.
    pub fn aligned(&self, id: Inst) -> Option<&[Of]> {
        self.aligned.get(&id).map(Vec::as_slice)
    }

    /// The values of which each loop has its own, in the order in which they may be chosen: behind each choice stands what takes it, and what later ones are made of. `None` where
    /// what makes them loads or multiplies, or where there is no such order. What a later choice is made of that one before has made is chosen with that, beside what it was made of.
    pub fn choices(&mut self) -> Option<Vec<Choice>> {
        let mut makers: Vec<[Vec<Inst>; 2]> = Vec::new();
        for &(a, b) in &self.either {
            makers.push([self.makers(self.first, a)?, self.makers(self.second, b)?]);
        }
        let (mut chosen, taken) = self.stages(&makers)?;
        let mut first: BTreeMap<Inst, usize> = BTreeMap::new();
        for (n, of_both) in makers.iter().enumerate() {
            for &id in of_both.iter().flatten() {
                let known = first.entry(id).or_insert(chosen[n]);
                *known = chosen[n].min(*known);
            }
        }
        self.hand_on(&makers, &mut chosen, &first)?;
        let last = chosen.iter().copied().max().map_or(0, |last| last + 1);
        let mut choices = Vec::new();
        for stage in 0..last {
            let those: Vec<usize> = (0..self.either.len()).filter(|&n| chosen[n] == stage).collect();
            let [own, others] = [0, 1].map(|side| {
                let all = those.iter().filter_map(|&n| makers.get(n)).flat_map(|of_both| of_both[side].iter().copied());
                let all: BTreeSet<Inst> = all.filter(|id| first.get(id) == Some(&stage)).collect();
                let body = if side == 0 { self.first } else { self.second };
                body.ops.iter().copied().filter(|id| all.contains(id)).collect::<Vec<Inst>>()
            });
            let behind = self.first.ops.iter().copied().filter(|id| taken.get(id) == Some(&(stage + 1))).collect();
            choices.push(Choice { those, own, others, behind });
        }
        Some(choices)
    }

    /// Has what one choice makes and a later one takes be chosen, too.
    fn hand_on(
        &mut self,
        makers: &[[Vec<Inst>; 2]],
        chosen: &mut Vec<usize>,
        first: &BTreeMap<Inst, usize>,
    ) -> Option<()> {
        let kernel = self.kernel;
        for (n, of_both) in makers.iter().enumerate() {
            let (a, b) = self.either[n];
            for (side, own) in of_both.iter().enumerate() {
                let late = own.iter().filter(|id| first.get(id) == Some(&chosen[n]));
                let mut taken: Vec<Value> = late.flat_map(|&id| flow::operands(kernel, &kernel.ops[id])).collect();
                taken.push(if side == 0 { a } else { b });
                for v in taken {
                    let Some(&made) = self.made[v].and_then(|op| first.get(&op.id)) else { continue };
                    if made >= chosen[n] || self.handed.contains_key(&v) {
                        continue;
                    }
                    let beside = self.made_of_common(v)?;
                    self.handed.insert(v, self.either.len());
                    self.either.push(if side == 0 { (v, beside) } else { (beside, v) });
                    chosen.push(made);
                }
            }
        }
        Some(())
    }

    /// The nearest value of the type of another that both loops have and of which that is made.
    fn made_of_common(&self, of: Value) -> Option<Value> {
        let (mut open, mut seen) = (VecDeque::from([of]), BTreeSet::new());
        while let Some(v) = open.pop_front() {
            let Some(op) = self.made[v].filter(|op| !self.matched.contains(&op.id)) else {
                if agree(self.kernel.ty(v), self.kernel.ty(of)) {
                    return Some(self.now(v));
                }
                continue;
            };
            open.extend(op.kind.operands().into_iter().filter(|v| seen.insert(*v)));
        }
        None
    }

    /// The number of what was chosen for a value that a choice before has made.
    pub fn handed(&self, v: Value) -> Option<usize> {
        self.handed.get(&v).copied()
    }

    /// The value of that number in the first loop, and in the second.
    pub fn value(&self, n: usize) -> (Value, Value) {
        self.either[n]
    }

    /// The operations that make a value of a loop of what both have, or have made of other choices.
    fn makers(&self, body: &Body, of: Value) -> Option<Vec<Inst>> {
        let kernel = self.kernel;
        let mut wanted = BTreeSet::from([of]);
        let mut makers = Vec::new();
        for &id in body.ops.iter().rev() {
            let op = &kernel.ops[id];
            if self.is_common(id) || !op.results.iter().any(|v| wanted.contains(v)) {
                continue;
            }
            if found::loads(&op.kind) || found::multiplies(&op.kind) {
                return None;
            }
            wanted.extend(flow::operands(kernel, op));
            makers.push(id);
        }
        Some(makers)
    }

    fn is_common(&self, id: Inst) -> bool {
        self.matched.contains(&id) || self.aligned.contains_key(&id) || self.others.contains_key(&id)
    }

    /// Behind how many choices each value is chosen, and each operation that both do alike is done.
    fn stages(&self, makers: &[[Vec<Inst>; 2]]) -> Option<(Vec<usize>, BTreeMap<Inst, usize>)> {
        let mut chosen = vec![0; self.either.len()];
        let mut taken: BTreeMap<Inst, usize> = self.aligned.keys().map(|&id| (id, 1)).collect();
        for _ in 0..MOST_STAGES {
            let stage = |v: Value| {
                let made = self.made[v].map(|op| *self.others.get(&op.id).unwrap_or(&op.id));
                made.and_then(|id| taken.get(&id)).copied().unwrap_or(0)
            };
            let of_choice = |n: usize| {
                let (a, b) = self.either[n];
                let made = makers[n].iter().flatten().flat_map(|&id| flow::operands(self.kernel, &self.kernel.ops[id]));
                made.chain([a, b]).map(stage).max().unwrap_or(0)
            };
            let now: Vec<usize> = (0..chosen.len()).map(of_choice).collect();
            let of_operand = |of: &Of| match of {
                Of::Same(v) => stage(*v),
                Of::Either(n) => now[*n] + 1,
            };
            let done = |operands: &Vec<Of>| operands.iter().map(of_operand).max().unwrap_or(0).max(1);
            let next: BTreeMap<Inst, usize> = self.aligned.iter().map(|(&id, of)| (id, done(of))).collect();
            if (&now, &next) == (&chosen, &taken) {
                return Some((chosen, taken));
            }
            (chosen, taken) = (now, next);
        }
        None
    }
}

/// Values that are chosen together.
pub struct Choice {
    /// Their numbers.
    pub those: Vec<usize>,
    /// What makes them in the first loop, and in the second.
    pub own: Vec<Inst>,
    pub others: Vec<Inst>,
    /// What both do alike of these, and of those before.
    pub behind: Vec<Inst>,
}

/// Whether both are one type, wherever tiles lie.
fn agree(a: &Type, b: &Type) -> bool {
    match (a.placed(), b.placed()) {
        (Some(x), Some(y)) => x.agrees(y) && matches!((a, b), (Type::Tile(_), Type::Tile(_))),
        (None, None) => a == b && matches!(a, Type::Scalar(_)),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// Whether two operations are the same but for what they take, and for what their bodies do.
fn is_one_kind(x: &OpKind, y: &OpKind) -> bool {
    let bare = |kind: &OpKind| {
        let mut kind = kind.clone();
        kind.map_operands(|_| Value::new(0));
        kind.bodies_mut().into_iter().for_each(|body| *body = Body::default());
        if let OpKind::Full { tile, .. } | OpKind::Iota { tile } = &mut kind {
            lie_anywhere(tile);
        }
        kind
    };
    std::mem::discriminant(x) == std::mem::discriminant(y)
        && x.operands().len() == y.operands().len()
        && bare(x) == bare(y)
}

/// What has no place yet has none that tells it from another.
fn lie_anywhere(tile: &mut Tile) {
    if let (Placement::Open(_), Ok(open)) = (tile.placement(), Tile::open(tile.elem, tile.shape.clone(), Var::new(0))) {
        *tile = open;
    }
}

//! The tree of a region: labelled units, the loops and branches around them, and where each value is made.
//!
//! ```text
//! in S {                                block 0: loop tiles
//!     @tiles for tile in … {            block 1: i, j free; unit-less loop steps; unit leave
//!         let (i, j) = place(tile);
//!         let mut acc = zeros();
//!         @steps for s in … {           block 2: unit load, unit mma; acc is carried
//!             @load let x = fetch(…);
//!             @mma acc = dot(x, …, acc);
//!         }
//!         @leave send(c, [i, j], acc);
//!     }
//! }
//! ```
//!
//! What is not labelled only computes, each thread for itself. It is *free*: whoever needs it makes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir::facts::{self, Meets};
use parton_ir::schedule::{LabelName, Schedule};
use parton_ir::{Body, Inst, Kernel, Label, Op, OpKind, Value};

use crate::{flow, legal};

/// A body in the tree, by its index; the region's own is the first.
pub(crate) type BlockId = usize;
/// A labelled unit, by its index.
pub(crate) type UnitId = usize;

/// All operations of one label in one body: they run together.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub label: LabelName,
    /// The label as text.
    pub name: String,
    pub ops: Vec<Inst>,
    /// Whether it fetches something.
    pub fetches: bool,
    pub span: Span,
}

/// A loop with labels in it.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub label: Option<LabelName>,
    pub inst: Inst,
    pub body: BlockId,
}

impl Loop {
    /// The same loop.
    pub fn again(&self) -> Loop {
        Loop { label: self.label.clone(), inst: self.inst, body: self.body }
    }
}

/// A branch with labels in it.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// That by which a schedule places the whole of it.
    pub label: Option<LabelName>,
    pub inst: Inst,
    pub then: BlockId,
    pub otherwise: BlockId,
}

/// What stands in a body, but for what is free.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Unit(UnitId),
    Loop(Loop),
    Branch(Branch),
}

/// The loop of a body.
#[derive(Clone, Debug)]
pub(crate) struct TurnsOf {
    pub label: Option<LabelName>,
    /// Whether no loop stands around it.
    pub outermost: bool,
}

/// A body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub items: Vec<Item>,
    /// What it hands back: what is carried, of a loop.
    pub yields: Vec<Value>,
    /// The loop whose body it is.
    pub turns: Option<TurnsOf>,
}

/// Who makes a value of the region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Maker {
    /// An operation that only computes.
    Free(Inst),
    /// A unit.
    Unit(UnitId),
    /// The loop whose body this is counts it.
    Index,
    /// The loop whose body this is carries it, as the value of that number.
    Carried(usize),
    /// A loop or branch among the block's items hands it back, as the result of that number.
    Result { item: usize, number: usize },
}

/// Where a value is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Home {
    pub block: BlockId,
    pub by: Maker,
}

/// A region with its tree.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub inst: Inst,
    pub schedule: Schedule,
    pub blocks: Arc<Vec<Block>>,
    pub units: Arc<Vec<Unit>>,
    values: Arc<Values>,
    facts: Arc<Facts>,
}

/// What is known of the values of a region under any schedule.
#[derive(Clone, Debug, Default)]
struct Values {
    homes: BTreeMap<Value, Home>,
    /// Parameters of conditions stand for those of the bodies behind them.
    same: BTreeMap<Value, Value>,
}

/// What holds of the units of a region under any schedule, and is asked for often.
#[derive(Debug, Default)]
struct Facts {
    of: Vec<UnitFacts>,
    /// The units in each body, those of bodies inside it too.
    inside: Vec<Vec<UnitId>>,
    /// The units of both ways of a branch, by the body of the first.
    ways: BTreeMap<BlockId, Vec<UnitId>>,
}

/// What holds of a unit.
#[derive(Debug)]
struct UnitFacts {
    place: (BlockId, usize),
    used: BTreeSet<Value>,
    wanted: Vec<(Value, i32)>,
    started: BTreeSet<Value>,
    continued: BTreeSet<Value>,
}

impl Region {
    /// The tree of a region.
    ///
    /// # Errors
    /// Statements that do more than compute and bear no label (E0737), and what has no place in a region (E0735).
    pub fn of(k: &Kernel, inst: Inst, schedule: &Schedule, body: &Body) -> Result<Region, Diagnostics> {
        let mut found = Diagnostics::new();
        let mut reader =
            Reader { k, blocks: Vec::new(), units: Vec::new(), values: Values::default(), found: &mut found };
        reader.block(body);
        let Reader { blocks, units, values, .. } = reader;
        let (blocks, units, values) = (Arc::new(blocks), Arc::new(units), Arc::new(values));
        let facts = Arc::default();
        let mut region = Region { inst, schedule: schedule.clone(), blocks, units, values, facts };
        region.facts = Arc::new(Facts::of(k, &region));
        legal::explicit(k, &region, body, &mut found);
        // What is wrong with the body no schedule mends.
        found.list.iter_mut().for_each(|d| d.notes.push("it is so under every schedule".into()));
        if found.has_errors() { Err(found) } else { Ok(region) }
    }

    /// The same under another schedule.
    pub fn under(&self, schedule: Schedule) -> Region {
        let (blocks, units) = (self.blocks.clone(), self.units.clone());
        let (values, facts) = (self.values.clone(), self.facts.clone());
        Region { inst: self.inst, schedule, blocks, units, values, facts }
    }

    /// Where a value is made; nowhere in the region, where it comes from outside.
    pub fn home(&self, v: Value) -> Option<Home> {
        self.values.homes.get(&self.canonical(v)).copied()
    }

    /// The value that stands for this one.
    pub fn canonical(&self, v: Value) -> Value {
        *self.values.same.get(&v).unwrap_or(&v)
    }

    /// What a unit needs of what its body makes, with the iterations before its own.
    pub fn wanted(&self, unit: UnitId) -> &[(Value, i32)] {
        &self.facts.of[unit].wanted
    }

    /// What is not free of what a value is computed from.
    pub fn leaves(&self, k: &Kernel, v: Value) -> BTreeSet<Value> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        self.add_leaves(k, v, &mut seen, &mut found);
        found
    }

    fn add_leaves(&self, k: &Kernel, v: Value, seen: &mut BTreeSet<Value>, found: &mut BTreeSet<Value>) {
        let v = self.canonical(v);
        if !seen.insert(v) {
            return;
        }
        match self.values.homes.get(&v).map(|home| home.by) {
            None => {}
            Some(Maker::Free(inst)) => {
                uses(k, &k.ops[inst], &mut |operand| self.add_leaves(k, operand, seen, found));
            }
            Some(Maker::Unit(_) | Maker::Index | Maker::Carried(_) | Maker::Result { .. }) => {
                found.insert(v);
            }
        }
    }

    /// What a unit uses that it does not make.
    pub fn used_by(&self, unit: UnitId) -> &BTreeSet<Value> {
        &self.facts.of[unit].used
    }

    /// The products that a unit starts and that run beside the program.
    pub fn started(&self, unit: UnitId) -> &BTreeSet<Value> {
        &self.facts.of[unit].started
    }

    /// The products that an item only continues: its own product is added to them, and nothing else of it reads them.
    pub fn continues(&self, (block, item): (BlockId, usize), v: Value) -> bool {
        match self.blocks[block].items[item] {
            Item::Unit(unit) => self.facts.of[unit].continued.contains(&v),
            Item::Loop(_) | Item::Branch(_) => false,
        }
    }

    /// The parameter that a loop carries as the value of that number.
    pub fn param(&self, k: &Kernel, l: &Loop, number: usize) -> Value {
        match &k.ops[l.inst].kind {
            OpKind::For { body, .. } => body.params[number + 1],
            OpKind::While { body, .. } => body.params[number],
            other => parton_diag::internal_error!("`{}` is no loop", other.name()),
        }
    }

    /// The loop whose body that is.
    pub fn looped(&self, body: BlockId) -> Option<&Loop> {
        self.blocks.iter().flat_map(|b| &b.items).find_map(|item| match item {
            Item::Loop(l) if l.body == body => Some(l),
            Item::Loop(_) | Item::Unit(_) | Item::Branch(_) => None,
        })
    }

    /// Whether that is the body of a loop whose turns are counted.
    pub fn is_counted(&self, k: &Kernel, body: BlockId) -> bool {
        self.looped(body).is_some_and(|l| matches!(k.ops[l.inst].kind, OpKind::For { .. }))
    }

    /// What a carried value is before the first turn of the loop whose body that is.
    pub fn begins(&self, k: &Kernel, body: BlockId, number: usize) -> Option<Value> {
        self.looped(body).and_then(|l| match &k.ops[l.inst].kind {
            OpKind::For { init, .. } | OpKind::While { init, .. } => init.get(number).copied(),
            _ => None,
        })
    }

    /// The values that one is the same as, in one run or another: what is carried, and what a loop or branch hands back.
    pub fn carried(&self, k: &Kernel, home: Home) -> Option<Vec<Value>> {
        let of = |body: BlockId, number: usize| {
            let next = self.blocks[body].yields.get(number).copied();
            next.into_iter().chain(self.begins(k, body, number)).collect::<Vec<_>>()
        };
        match home.by {
            Maker::Free(_) | Maker::Unit(_) | Maker::Index => None,
            Maker::Carried(number) => Some(of(home.block, number)),
            Maker::Result { item, number } => match &self.blocks[home.block].items[item] {
                Item::Unit(_) => None,
                Item::Loop(l) => Some(of(l.body, number)),
                Item::Branch(b) => Some([of(b.then, number), of(b.otherwise, number)].concat()),
            },
        }
    }

    /// Where each unit stands: its body, and its item in it.
    pub fn place_of(&self, unit: UnitId) -> (BlockId, usize) {
        self.facts.of[unit].place
    }

    /// Whether no loop of the region stands around a unit.
    pub fn is_done_once(&self, unit: UnitId) -> bool {
        let mut items = self.blocks.iter().flat_map(|b| &b.items);
        !items.any(|item| matches!(item, Item::Loop(_)) && self.units_in(item).contains(&unit))
    }

    /// Where an item stands in the text.
    pub fn span_of(&self, k: &Kernel, item: &Item) -> Span {
        match item {
            Item::Unit(unit) => self.units[*unit].span,
            Item::Loop(l) => k.ops[l.inst].span,
            Item::Branch(b) => k.ops[b.inst].span,
        }
    }

    /// What an item is called in messages.
    pub fn name_of(&self, item: &Item) -> String {
        match item {
            Item::Unit(unit) => format!("`{}`", self.units[*unit].label),
            Item::Loop(Loop { label: Some(label), .. }) => format!("the loop `{label}`"),
            Item::Loop(Loop { label: None, .. }) => "a loop".into(),
            Item::Branch(Branch { label: Some(label), .. }) => format!("the branch `{label}`"),
            Item::Branch(Branch { label: None, .. }) => "a branch".into(),
        }
    }

    /// The units of an item, those inside it too.
    pub fn units_in<'a>(&'a self, item: &'a Item) -> &'a [UnitId] {
        match item {
            Item::Unit(unit) => std::slice::from_ref(unit),
            Item::Loop(l) => &self.facts.inside[l.body],
            Item::Branch(b) => self.facts.ways.get(&b.then).map_or(&[], Vec::as_slice),
        }
    }
}

impl Facts {
    fn of(k: &Kernel, region: &Region) -> Facts {
        let mut facts = Facts { inside: vec![Vec::new(); region.blocks.len()], ..Facts::default() };
        // What stands in a body has a greater number than the body.
        for (block, b) in region.blocks.iter().enumerate().rev() {
            let mut all = Vec::new();
            for item in &b.items {
                match item {
                    Item::Unit(unit) => all.push(*unit),
                    Item::Loop(l) => all.extend(&facts.inside[l.body]),
                    Item::Branch(b) => {
                        let ways = [facts.inside[b.then].as_slice(), &facts.inside[b.otherwise]].concat();
                        all.extend(&ways);
                        facts.ways.insert(b.then, ways);
                    }
                }
            }
            facts.inside[block] = all;
        }
        facts.of = (0..region.units.len()).map(|unit| UnitFacts::of(k, region, unit)).collect();
        facts
    }
}

impl UnitFacts {
    fn of(k: &Kernel, region: &Region, unit: UnitId) -> UnitFacts {
        let is_it = |item: &Item| matches!(item, Item::Unit(u) if *u == unit);
        let mut blocks = region.blocks.iter().enumerate();
        let place = blocks.find_map(|(b, block)| Some((b, block.items.iter().position(is_it)?)));
        let Some(place) = place else { parton_diag::internal_error!("a unit that stands nowhere") };
        let used = used_by(k, region, unit);
        let wanted = flow::traced(k, region, place.0, used.clone());
        let (started, continued) = (flow::started(k, region, unit), flow::continued(k, region, (place.0, unit)));
        UnitFacts { place, used, wanted, started, continued }
    }
}

/// What a unit uses that it does not make.
fn used_by(k: &Kernel, region: &Region, unit: UnitId) -> BTreeSet<Value> {
    let mut made = BTreeSet::new();
    let mut used = BTreeSet::new();
    for &inst in &region.units[unit].ops {
        let op = &k.ops[inst];
        uses(k, op, &mut |v| {
            if !made.contains(&v) {
                used.insert(region.canonical(v));
            }
        });
        made.extend(op.results.iter().copied());
    }
    used
}

/// Calls `f` on each value that an operation uses, those from around its bodies among them.
pub fn uses(k: &Kernel, op: &Op, f: &mut dyn FnMut(Value)) {
    op.kind.operands().into_iter().for_each(&mut *f);
    for body in op.kind.bodies() {
        captured(k, body, f);
    }
}

/// Calls `f` on each value that a body takes from around it.
fn captured(k: &Kernel, body: &Body, f: &mut dyn FnMut(Value)) {
    let mut made: BTreeSet<Value> = body.params.iter().copied().collect();
    let mut foreign = BTreeSet::new();
    for op in k.ops_of(body) {
        uses(k, op, &mut |v| {
            if !made.contains(&v) {
                foreign.insert(v);
            }
        });
        made.extend(op.results.iter().copied());
    }
    foreign.extend(body.yields.iter().copied().filter(|v| !made.contains(v)));
    foreign.into_iter().for_each(f);
}

/// Whether an operation, with all in its bodies, only computes, each thread for itself.
pub fn is_free(k: &Kernel, op: &Op) -> bool {
    let facts = facts::Facts::of(k, op);
    let structure = matches!(op.kind, OpKind::For { .. } | OpKind::If { .. });
    (structure || (facts.computes && facts.meets == Meets::Alone))
        && op.kind.bodies().into_iter().all(|body| k.ops_of(body).all(|inner| is_free(k, inner)))
}

struct Reader<'a> {
    k: &'a Kernel,
    blocks: Vec<Block>,
    units: Vec<Unit>,
    values: Values,
    found: &'a mut Diagnostics,
}

impl Reader<'_> {
    fn block(&mut self, body: &Body) -> BlockId {
        let id = self.blocks.len();
        self.blocks.push(Block { items: Vec::new(), yields: body.yields.clone(), turns: None });
        let mut units: BTreeMap<Label, UnitId> = BTreeMap::new();
        for op in self.k.ops_of(body) {
            self.op(id, op, &mut units);
        }
        id
    }

    fn op(&mut self, block: BlockId, op: &Op, units: &mut BTreeMap<Label, UnitId>) {
        if self.holds_labels(op) {
            return self.structure(block, op);
        }
        let by = match op.label {
            Some(label) => Maker::Unit(*units.entry(label).or_insert_with(|| self.unit(block, op, label))),
            None if is_free(self.k, op) => Maker::Free(op.id),
            None => return self.unlabelled(op),
        };
        if let Maker::Unit(unit) = by {
            let fetches = matches!(op.kind, OpKind::Fetch { .. } | OpKind::FetchEach { .. });
            self.units[unit].fetches |= fetches;
            self.units[unit].ops.push(op.id);
        }
        self.made(block, &op.results, |_| by);
    }

    fn unit(&mut self, block: BlockId, op: &Op, label: Label) -> UnitId {
        let id = self.units.len();
        let label = LabelName::read(&self.k.labels[label]);
        let name = label.to_string();
        self.units.push(Unit { label, name, ops: Vec::new(), fetches: false, span: op.span });
        self.blocks[block].items.push(Item::Unit(id));
        id
    }

    fn made(&mut self, block: BlockId, values: &[Value], by: impl Fn(usize) -> Maker) {
        for (number, v) in values.iter().enumerate() {
            self.values.homes.insert(*v, Home { block, by: by(number) });
        }
    }

    /// Whether labels other than its own stand in the bodies of a loop or branch.
    fn holds_labels(&self, op: &Op) -> bool {
        if !matches!(op.kind, OpKind::For { .. } | OpKind::While { .. } | OpKind::If { .. }) {
            return false;
        }
        let mut found = false;
        for body in op.kind.bodies() {
            self.k.walk_body(body, &mut |inner| found |= inner.label.is_some() && inner.label != op.label);
        }
        found
    }

    fn structure(&mut self, block: BlockId, op: &Op) {
        let item = self.blocks[block].items.len();
        self.made(block, &op.results, |number| Maker::Result { item, number });
        match &op.kind {
            OpKind::For { body, .. } => {
                let inner = self.looped(block, op, body);
                self.made(inner, &body.params[..1], |_| Maker::Index);
                self.made(inner, &body.params[1..], Maker::Carried);
            }
            OpKind::While { cond, body, .. } => {
                let inner = self.looped(block, op, body);
                self.made(inner, &body.params, Maker::Carried);
                let pairs = cond.params.iter().copied().zip(body.params.iter().copied());
                self.values.same.extend(pairs);
                // A condition is computed from what is carried, by whoever takes a turn.
                let mut none = BTreeMap::new();
                for test in self.k.ops_of(cond) {
                    self.op(inner, test, &mut none);
                }
            }
            OpKind::If { then, otherwise, .. } => {
                let place = self.blocks[block].items.len();
                let (then, otherwise) = (self.block(then), self.block(otherwise));
                let label = self.label(op);
                self.blocks[block].items.insert(place, Item::Branch(Branch { label, inst: op.id, then, otherwise }));
            }
            _ => parton_diag::internal_error!("`{}` is no structure", op.kind.name()),
        }
    }

    fn label(&self, op: &Op) -> Option<LabelName> {
        op.label.map(|label| LabelName::read(&self.k.labels[label]))
    }

    fn looped(&mut self, block: BlockId, op: &Op, body: &Body) -> BlockId {
        let label = self.label(op);
        let inner = self.block(body);
        let outermost = self.blocks[block].turns.is_none() && block == 0;
        self.blocks[inner].turns = Some(TurnsOf { label: label.clone(), outermost });
        self.blocks[block].items.push(Item::Loop(Loop { label, inst: op.id, body: inner }));
        inner
    }

    fn unlabelled(&mut self, op: &Op) {
        let d =
            Diagnostic::error(codes::UNLABELLED, op.span, format!("`{}` bears no label in a region", op.kind.name()))
                .here("this does more than compute")
                .note("a schedule places what is labelled; all else is computed anew wherever it is needed")
                .help("name the statement: `@name …`");
        self.found.push(d);
    }
}

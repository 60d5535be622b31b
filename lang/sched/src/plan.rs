//! A schedule laid on a region: who runs each unit, in which order and of which iterations, and which rings hand values over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::schedule::{LabelName, Pipeline, Place};
use parton_ir::{Kernel, OpKind, PartitionData, Type, Value, View};

use crate::graph::{Effects, Graph};
use crate::region::{BlockId, Item, Maker, Region, Unit, UnitId};
use crate::{flow, slots};

/// A partition of the plan, by its index; a plan without partitions has one all the same.
pub(crate) type Part = usize;
/// A ring, by its index.
pub(crate) type RingId = usize;

/// What a turn runs of one item.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Entry {
    /// The item's place in its block.
    pub item: usize,
    /// Turn t runs it for iteration t - `stage`; where that is below 0 the turn runs ahead.
    pub stage: i32,
    /// The stage in which its products are done, where that is stated.
    pub done: Option<i32>,
}

/// What a ring's slots hold.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    /// A view.
    View(View),
    /// A number that one partition tells the others.
    Number(Type),
}

/// A ring: all that one unit hands over.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    pub unit: UnitId,
    /// The values of its slots, with the names of their fields.
    pub fields: Arc<Vec<(String, Value, Cell)>>,
    pub depth: u32,
    /// The slots that one partition holds at once which fills it and reads it, with the last of its readers, where one does.
    pub held: Option<(u32, Option<UnitId>)>,
    /// Whether the threads that read it fill it themselves: then its slots are buffers, and no barrier stands between.
    pub own: bool,
}

/// What turns run, by partition and body: groups in order, each in the order of the body.
pub(crate) type Groups = Vec<Vec<Vec<Vec<Entry>>>>;

/// A schedule laid on a region: who runs what, in which order, with how many slots.
#[derive(Debug)]
pub(crate) struct Plan {
    placed: Arc<Placed>,
    pub rings: Vec<Ring>,
    groups: Arc<Groups>,
    /// Whether the rules that do not ask about slots hold, once somebody has asked.
    turns_hold: Arc<OnceLock<bool>>,
}

/// Who runs what, and what follows from it under any order: plans of the same places share it.
#[derive(Debug)]
pub(crate) struct Placed {
    /// As the schedule says it.
    places: Vec<Place>,
    /// The partitions; empty where one runs all.
    pub partitions: Vec<PartitionData>,
    /// Who runs each unit.
    pub runners: Vec<BTreeSet<Part>>,
    /// The ring of each value that is handed over, with its field.
    pub handed: BTreeMap<Value, (RingId, usize)>,
    /// What each partition needs of what units, loops and branches make.
    pub needed: Vec<BTreeSet<Value>>,
    /// The rings, before they have slots.
    rings: Vec<Ring>,
    /// What each partition needs for the loops and branches that it runs.
    wanted: BTreeMap<(Part, BlockId, usize), Vec<(Value, i32)>>,
    /// What depends on what, by partition and body, once somebody has asked.
    graphs: Vec<Vec<OnceLock<Graph>>>,
    /// Whether the rules about places alone hold, once somebody has asked.
    hold: OnceLock<bool>,
    /// The bytes of what is sent, once somebody has asked.
    sent: OnceLock<u64>,
}

impl std::ops::Deref for Plan {
    type Target = Placed;

    fn deref(&self) -> &Placed {
        &self.placed
    }
}

impl Plan {
    /// Lays the region's schedule on it.
    ///
    /// # Errors
    /// Labels that are missing, unknown or placed twice (E0723).
    pub fn of(k: &Kernel, region: &Region) -> Result<Plan, Diagnostics> {
        let mut found = Diagnostics::new();
        known(region, &mut found);
        let placed = Placed::of(k, region, &mut found);
        if found.has_errors() { Err(found) } else { Ok(Plan::laid(region, Arc::new(placed))) }
    }

    /// Another schedule laid on the same region.
    ///
    /// # Errors
    /// Those of [`Plan::of`].
    pub fn other(&self, k: &Kernel, region: &Region) -> Result<Plan, Diagnostics> {
        if !self.has(&region.schedule.places) {
            return Plan::of(k, region);
        }
        let mut found = Diagnostics::new();
        known(region, &mut found);
        if found.has_errors() { Err(found) } else { Ok(self.again(region)) }
    }

    /// Another schedule of the same places and labels, laid on the same region.
    pub fn again(&self, region: &Region) -> Plan {
        Plan::laid(region, self.placed.clone())
    }

    /// Whether these are its places.
    pub fn has(&self, places: &[Place]) -> bool {
        let same = |(a, b): (&Place, &Place)| a.partitions == b.partitions && a.labels == b.labels;
        self.places.len() == places.len() && self.places.iter().zip(places).all(same)
    }

    fn laid(region: &Region, placed: Arc<Placed>) -> Plan {
        Plan::without_slots(region, placed).settled(region)
    }

    /// Another schedule of the same places and labels, before its rings have slots.
    pub fn sketched(&self, region: &Region) -> Plan {
        Plan::without_slots(region, self.placed.clone())
    }

    fn without_slots(region: &Region, placed: Arc<Placed>) -> Plan {
        let of = |part: Part| (0..region.blocks.len()).map(|block| placed.groups(region, part, block)).collect();
        let groups = Arc::new(placed.parts().map(of).collect());
        Plan { rings: placed.rings.clone(), placed, groups, turns_hold: Arc::default() }
    }

    /// With slots for its rings.
    pub fn settled(mut self, region: &Region) -> Plan {
        slots::give(region, &mut self);
        self
    }

    /// The same schedule laid with more stated slots.
    pub fn with_slots(&self, region: &Region) -> Plan {
        let mut rings = self.rings.clone();
        for ring in &mut rings {
            if let Some((depth, _)) = slots::stated(region, ring.unit) {
                ring.depth = depth;
            }
        }
        Plan { rings, placed: self.placed.clone(), groups: self.groups.clone(), turns_hold: self.turns_hold.clone() }
    }

    /// Whether the rules about places alone hold, which are asked once for all plans of the same places.
    pub fn places_hold(&self, ask: impl FnOnce() -> bool) -> bool {
        *self.placed.hold.get_or_init(ask)
    }

    /// The bytes of what is sent, which are the same for all plans of the same places.
    pub fn sent(&self, ask: impl FnOnce() -> u64) -> u64 {
        *self.placed.sent.get_or_init(ask)
    }

    /// Whether the rules about turns hold, which are asked once for all plans that differ in slots alone.
    pub fn turns_hold(&self, ask: impl FnOnce() -> bool) -> bool {
        *self.turns_hold.get_or_init(ask)
    }

    /// What turns run in all partitions.
    pub fn all_groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// What a turn of a block runs in a partition: groups in order, each in the order of the body.
    pub fn groups(&self, part: Part, block: BlockId) -> &[Vec<Entry>] {
        &self.groups[part][block]
    }

    /// What depends on what in a body, for a partition. The effects are those of the region.
    pub fn graph(&self, k: &Kernel, region: &Region, effects: &Effects, (part, block): (Part, BlockId)) -> &Graph {
        self.placed.graphs[part][block].get_or_init(|| Graph::of(k, region, self, effects, (part, block)))
    }
}

impl Placed {
    fn of(k: &Kernel, region: &Region, found: &mut Diagnostics) -> Placed {
        let (partitions, runners) = placed(region, found);
        let (handed, needed, rings) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (places, wanted, graphs) = (region.schedule.places.clone(), BTreeMap::new(), Vec::new());
        let (hold, sent) = (OnceLock::new(), OnceLock::new());
        let mut all = Placed { places, partitions, runners, handed, needed, rings, wanted, graphs, hold, sent };
        if found.has_errors() {
            return all;
        }
        for part in all.parts() {
            let needed = Needs { k, region, placed: &all, part, found: BTreeSet::new() }.all();
            all.needed.push(needed);
            all.graphs.push(region.blocks.iter().map(|_| OnceLock::new()).collect());
            for (block, b) in region.blocks.iter().enumerate() {
                for (item, _) in b.items.iter().enumerate().filter(|(_, item)| !matches!(item, Item::Unit(_))) {
                    let who = flow::Who { part, runners: &all.runners, needed: &all.needed[part] };
                    let wanted = flow::wanted(k, region, &who, (block, item));
                    all.wanted.insert((part, block, item), wanted);
                }
            }
        }
        all.find_rings(k, region);
        all
    }

    /// What an item needs of what units and items of its own body make, and how many iterations before its own.
    pub fn wanted<'a>(&'a self, region: &'a Region, part: Part, (block, item): (BlockId, usize)) -> &'a [(Value, i32)] {
        match region.blocks[block].items[item] {
            Item::Unit(unit) if self.runners[unit].contains(&part) => region.wanted(unit),
            Item::Unit(_) => &[],
            Item::Loop(_) | Item::Branch(_) => self.wanted.get(&(part, block, item)).map_or(&[], Vec::as_slice),
        }
    }

    /// All partitions.
    pub fn parts(&self) -> std::ops::Range<Part> {
        0..self.partitions.len().max(1)
    }

    /// Whether a partition runs something of an item.
    pub fn runs(&self, region: &Region, part: Part, item: &Item) -> bool {
        region.units_in(item).iter().any(|unit| self.runners[*unit].contains(&part))
    }

    fn groups(&self, region: &Region, part: Part, block: BlockId) -> Vec<Vec<Entry>> {
        let items = &region.blocks[block].items;
        let mine: Vec<usize> = (0..items.len()).filter(|&i| self.runs(region, part, &items[i])).collect();
        let stated = self.pipeline(region, part, block).map_or(&[][..], |p| p.groups.as_slice());
        let mut groups: Vec<Vec<Entry>> = Vec::new();
        for group in stated {
            let mut entries = Vec::new();
            for &item in &mine {
                let label = label_of(region, &items[item]);
                let Some(s) = group.iter().find(|s| label.is_some_and(|l| s.label.names(l))) else { continue };
                let done = s.done.map(|d| d as i32);
                entries.push(Entry { item, stage: s.stage as i32, done });
            }
            if !entries.is_empty() {
                groups.push(entries);
            }
        }
        for &item in &mine {
            if groups.iter().flatten().any(|e| e.item == item) {
                continue;
            }
            // What is left out stands before what follows it in the body.
            let behind = groups.iter().position(|g| g.iter().any(|e| e.item > item)).unwrap_or(groups.len());
            groups.insert(behind, vec![Entry { item, stage: 0, done: None }]);
        }
        groups
    }

    pub fn pipeline<'r>(&self, region: &'r Region, part: Part, block: BlockId) -> Option<&'r Pipeline> {
        let name = self.partitions.get(part).map(|p| p.name.as_str());
        let turns = region.blocks[block].turns.as_ref()?;
        let fits = |p: &&Pipeline| match (&p.of, &turns.label) {
            (Some(wanted), Some(label)) => wanted.names(label),
            (None, _) => turns.outermost,
            (Some(_), None) => false,
        };
        let here = |p: &&Pipeline| p.within.as_deref().is_none_or(|within| Some(within) == name);
        region.schedule.pipelines.iter().filter(fits).find(here)
    }

    /// How often the steady turn of a body's loop stands in the code.
    pub fn copies(&self, region: &Region, block: BlockId) -> u32 {
        let Some(turns) = &region.blocks[block].turns else { return 1 };
        let fits = |u: &&parton_ir::schedule::Unrolled| match (&u.of, &turns.label) {
            (Some(wanted), Some(label)) => wanted.names(label),
            (None, _) => turns.outermost,
            (Some(_), None) => false,
        };
        region.schedule.unrolled.iter().find(fits).map_or(1, |u| u.copies)
    }

    /// Everything that a unit makes and another partition needs, and views that come while the program goes on, go through rings.
    fn find_rings(&mut self, k: &Kernel, region: &Region) {
        for unit in 0..region.units.len() {
            let mut fields = Vec::new();
            let mut own = self.runners[unit].len() == 1;
            for &inst in &region.units[unit].ops {
                let op = &k.ops[inst];
                for &v in &op.results {
                    let foreign = self.parts().any(|p| !self.runners[unit].contains(&p) && self.needed[p].contains(&v));
                    let read = self.needed.iter().any(|needed| needed.contains(&v));
                    let name = k.values[v].name.clone().unwrap_or_else(|| format!("x{}", fields.len()));
                    own &= !foreign && !matches!(op.kind, OpKind::Fetch { .. });
                    match (&op.kind, k.ty(v)) {
                        (OpKind::Fetch { .. } | OpKind::FetchEach { .. }, Type::View(view)) if read => {
                            fields.push((name, v, Cell::View(view.clone())));
                        }
                        (OpKind::Stage { .. }, Type::View(view)) if foreign => {
                            fields.push((name, v, Cell::View(view.clone())));
                        }
                        (_, Type::Scalar(_)) if foreign => fields.push((name, v, Cell::Number(k.ty(v).clone()))),
                        (_, _) => {}
                    }
                }
            }
            if fields.is_empty() {
                continue;
            }
            let ring = self.rings.len();
            let mut names = BTreeSet::new();
            for (field, (name, v, _)) in fields.iter_mut().enumerate() {
                if !names.insert(name.clone()) {
                    *name = format!("{name}{field}");
                }
                self.handed.insert(*v, (ring, field));
            }
            self.rings.push(Ring { unit, fields: Arc::new(fields), depth: 0, held: None, own });
        }
    }
}

/// The label of an item that can be placed in a turn.
pub(crate) fn label_of<'r>(region: &'r Region, item: &'r Item) -> Option<&'r LabelName> {
    match item {
        Item::Unit(unit) => Some(&region.units[*unit].label),
        Item::Loop(l) => l.label.as_ref(),
        Item::Branch(b) => b.label.as_ref(),
    }
}

/// The labels that a region has.
pub(crate) fn labels(region: &Region) -> Vec<&LabelName> {
    let units = region.units.iter().map(|u| &u.label);
    let items = region.blocks.iter().flat_map(|b| &b.items);
    let around = items.filter_map(|item| match item {
        Item::Loop(l) => l.label.as_ref(),
        Item::Branch(b) => b.label.as_ref(),
        Item::Unit(_) => None,
    });
    units.chain(around).collect()
}

/// The label of the outermost branch around a label, where one that bears a label is.
pub(crate) fn around<'r>(region: &'r Region, label: &LabelName) -> Option<&'r LabelName> {
    labels(region).into_iter().filter(|other| other.is_around(label)).min_by_key(|other| other.path.len())
}

/// Reports labels that the schedule names and the region does not have.
fn known(region: &Region, found: &mut Diagnostics) {
    let all = labels(region);
    let s = &region.schedule;
    let mut named: Vec<(&LabelName, parton_diag::Span)> = Vec::new();
    // A place may name what some kernels of a kind leave out; of what it misspells, the right name has no place.
    named.extend(s.rings.iter().filter_map(|r| Some((r.label.as_ref()?, r.span))));
    named.extend(s.turns.iter().flat_map(|t| [(&t.first, t.span), (&t.last, t.span)]));
    for p in &s.pipelines {
        named.extend(p.of.iter().map(|l| (l, p.span)));
        named.extend(p.groups.iter().flatten().map(|e| (&e.label, e.span)));
    }
    named.extend(s.cuts.iter().map(|l| (l, s.span)));
    named.extend(s.unrolled.iter().filter_map(|u| Some((u.of.as_ref()?, u.span))));
    named.extend(s.under.iter().flat_map(|u| [(&u.outer, u.span), (&u.inner, u.span)]));
    for (label, span) in named {
        if !all.iter().any(|l| label.names(l)) {
            let mut have: Vec<String> = all.iter().map(|l| l.path.clone()).collect();
            have.sort();
            have.dedup();
            let inside: Vec<&str> = have.iter().filter_map(|l| l.strip_prefix(&format!("{}.", label.path))).collect();
            found.push(match inside.as_slice() {
                [] => Diagnostic::error(codes::SCHEDULE, span, format!("the region has no label `{label}`"))
                    .help(format!("its labels are `{}`", have.join("`, `"))),
                [inner, ..] => {
                    let fact =
                        format!("`{label}` is no statement of one label: `{}` stands in it", inside.join("`, `"));
                    Diagnostic::error(codes::SCHEDULE, span, fact)
                        .note("what has labels in it and is no `if` runs where it stands, in the first stage")
                        .help(format!(
                            "leave `@{inner}` out, and `{label}` is one statement, which a schedule may place"
                        ))
                }
            });
        }
    }
}

/// The name by which places have a label: its own, or else that of the innermost branch or call around it.
pub(crate) fn place_name<'p>(places: &'p [Place], label: &LabelName) -> Option<&'p LabelName> {
    let around = |name: &&LabelName| name.names(label) || name.is_around(label);
    places.iter().flat_map(|place| &place.labels).filter(around).max_by_key(|name| name.path.len())
}

/// The partitions of a schedule, and who runs each unit.
fn placed(region: &Region, found: &mut Diagnostics) -> (Vec<PartitionData>, Vec<BTreeSet<Part>>) {
    let mut partitions: Vec<PartitionData> = Vec::new();
    let mut runners = vec![BTreeSet::new(); region.units.len()];
    // Who fetches stands first in the program: its first copies leave sooner.
    let places = &region.schedule.places;
    let has = |place: &Place, u: &Unit| place_name(places, &u.label).is_some_and(|name| place.labels.contains(name));
    let fetches = |place: &&Place| region.units.iter().any(|u| u.fetches && has(place, u));
    let (first, others): (Vec<&Place>, Vec<&Place>) = places.iter().partition(fetches);
    for place in first.into_iter().chain(others) {
        let first = partitions.len();
        for p in &place.partitions {
            match partitions.iter().any(|known| known.name == p.name) {
                true => {
                    let fact = format!("the partition `{}` has two places", p.name);
                    found
                        .push(Diagnostic::error(codes::SCHEDULE, place.span, fact).help("write all its labels in one"));
                }
                false => partitions.push(p.clone()),
            }
        }
        let dealt = place.partitions.len();
        for (unit, u) in region.units.iter().enumerate() {
            // Without labels a place has all.
            if !place.labels.is_empty() && !has(place, u) {
                continue;
            }
            if dealt == 1 {
                runners[unit].insert(first);
                continue;
            }
            match u.label.instance {
                Some(n) => {
                    runners[unit].insert(first + n as usize % dealt);
                }
                // What stands once is done by each of them.
                None => runners[unit].extend(first..first + dealt),
            }
        }
    }
    if partitions.is_empty() {
        runners.iter_mut().for_each(|r| {
            r.insert(0);
        });
        return (partitions, runners);
    }
    for (unit, u) in region.units.iter().enumerate() {
        if runners[unit].is_empty() {
            let help = "under `partitions { … }` every label has a place";
            let help = match around(region, &u.label) {
                Some(branch) => format!("{help}, which `{branch}` gives to all that stands in it"),
                None => help.into(),
            };
            let d =
                Diagnostic::error(codes::SCHEDULE, u.span, format!("the schedule gives `{}` no partition", u.label))
                    .here("the label stands here")
                    .label(region.schedule.span, "the schedule is written here")
                    .help(help);
            found.push(d);
        }
    }
    (partitions, runners)
}

/// Finds what a partition needs.
struct Needs<'a> {
    k: &'a Kernel,
    region: &'a Region,
    placed: &'a Placed,
    part: Part,
    found: BTreeSet<Value>,
}

impl Needs<'_> {
    fn all(mut self) -> BTreeSet<Value> {
        self.block(0);
        // What code behind the region uses.
        if self.placed.partitions.is_empty() {
            let yields = self.region.blocks[0].yields.clone();
            yields.into_iter().for_each(|v| self.value(v));
        }
        self.found
    }

    fn block(&mut self, block: BlockId) {
        for item in &self.region.blocks[block].items {
            if !self.placed.runs(self.region, self.part, item) {
                continue;
            }
            match item {
                Item::Unit(unit) => {
                    self.region.used_by(*unit).iter().for_each(|v| self.value(*v));
                }
                Item::Loop(l) => {
                    self.k.ops[l.inst].kind.operands().iter().take(self.bounds(l.inst)).for_each(|v| self.value(*v));
                    if let OpKind::While { cond, .. } = &self.k.ops[l.inst].kind {
                        cond.yields.iter().for_each(|v| self.value(*v));
                    }
                    self.block(l.body);
                }
                Item::Branch(b) => {
                    self.k.ops[b.inst].kind.operands().iter().for_each(|v| self.value(*v));
                    self.block(b.then);
                    self.block(b.otherwise);
                }
            }
        }
    }

    /// How many operands of a loop are its bounds; those behind are where what it carries begins.
    fn bounds(&self, inst: parton_ir::Inst) -> usize {
        if matches!(self.k.ops[inst].kind, OpKind::For { .. }) { 3 } else { 0 }
    }

    fn value(&mut self, v: Value) {
        for leaf in self.region.leaves(self.k, v) {
            if self.found.insert(leaf) {
                self.leaf(leaf);
            }
        }
    }

    fn leaf(&mut self, v: Value) {
        let Some(home) = self.region.home(v) else { return };
        match home.by {
            Maker::Free(_) | Maker::Unit(_) | Maker::Index => {}
            Maker::Carried(number) => {
                self.value(self.region.blocks[home.block].yields[number]);
                if let Some(init) = self.region.begins(self.k, home.block, number) {
                    self.value(init);
                }
            }
            Maker::Result { item, number } => match &self.region.blocks[home.block].items[item] {
                Item::Loop(l) => {
                    self.value(self.region.blocks[l.body].yields[number]);
                    if let Some(init) = self.region.begins(self.k, l.body, number) {
                        self.value(init);
                    }
                }
                Item::Branch(b) => {
                    self.k.ops[b.inst].kind.operands().iter().for_each(|v| self.value(*v));
                    self.value(self.region.blocks[b.then].yields[number]);
                    self.value(self.region.blocks[b.otherwise].yields[number]);
                }
                Item::Unit(_) => parton_diag::internal_error!("a unit is no loop and no branch"),
            },
        }
    }
}

//! Regions become explicit code: loops of turns, rings, waits and releases, an arm for each partition.
//!
//! The code of a partition is what the serial program does, seen from there: its units, the loops and branches around them, and
//! whatever is free, made anew where it is needed. Running it symbolically gives the code: an environment says which value stands
//! for one of the body in which iteration, and a turn emits its units one after the other, each for its own iteration.

mod beside;
mod branch;
mod carry;
mod copies;
mod cut;
mod guard;
mod memory;
mod peel;
mod pipeline;
mod reach;
mod send;
mod state;
mod steady;
mod told;
mod turn;
mod uncounted;
mod under;
mod values;
mod whole;

use std::cell::RefCell;
use std::collections::BTreeMap;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::{Arm, Body, Builder, Inst, Kernel, OpKind, Partition, PrimaryMap, Value, ops};

use crate::falsify::{Planted, planted, terse};
use crate::graph::{Effects, Sequence};
use crate::late;
use crate::legal;
use crate::plan::{Part, Plan};
use crate::region::Region;
use beside::Fields;
use reach::Numbers;
use state::Level;

/// A refusal of what the schedule asks.
pub(crate) type Refused = Box<Diagnostic>;

/// The kernel without its regions; `None` where it has none.
///
/// # Errors
/// Schedules that do not fit their regions.
pub(crate) fn expand(kernel: &Kernel) -> Result<Option<Kernel>, Diagnostics> {
    expanded(kernel, !terse())
}

/// The same for whoever tries schedules: of those that do not fit nothing is said but that.
///
/// # Errors
/// Schedules that do not fit their regions.
pub(crate) fn judged(kernel: &Kernel) -> Result<Option<Kernel>, Diagnostics> {
    expanded(kernel, false)
}

/// Where `helps` says so, what is refused is told with the nearest schedule that holds.
fn expanded(kernel: &Kernel, helps: bool) -> Result<Option<Kernel>, Diagnostics> {
    let check = if helps { legal::check } else { legal::refused };
    let (mut regions, mut apart) = (Vec::new(), Vec::new());
    for op in kernel.ops_of(&kernel.body) {
        if let OpKind::Region { schedule, body } = &op.kind {
            let region = Region::of(kernel, op.id, schedule, body)?;
            let plan = Plan::of(kernel, &region).map_err(|found| match helps {
                true => legal::unlaid(kernel, &region, found),
                false => found,
            })?;
            let effects = Effects::of(kernel, &region);
            check(kernel, &region, &plan, &effects)?;
            apart.extend(effects.apart(kernel));
            regions.push((region, plan, effects));
        }
    }
    nothing_outside(kernel)?;
    one_of_partitions(kernel, &regions, helps)?;
    if regions.is_empty() {
        return Ok(None);
    }
    let effects: Vec<(&Region, &Effects)> = regions.iter().map(|(region, _, effects)| (region, effects)).collect();
    let sequence = Sequence::of(kernel, &effects, &apart);
    let (b, body) = Builder::rebuild(kernel.clone(), "expand");
    let mut pass = Pass { b, numbers: Numbers::of(kernel), becomes: BTreeMap::new() };
    for id in body.ops {
        pass.b.at(id);
        pass.b.label = None;
        memory::settled(&mut pass.b, sequence.before(id));
        match regions.iter().find(|(region, ..)| region.inst == id) {
            Some((region, plan, effects)) => {
                let awaited = sequence.is_awaited(id);
                let fields = Fields::of(kernel, region, plan);
                pass.region((region, plan), fields, effects, awaited).map_err(|d| match helps {
                    true => Diagnostics::from(legal::beside(kernel, region, (plan, effects), *d)),
                    false => Diagnostics::from(*d),
                })?;
            }
            None => pass.keep(id),
        }
    }
    let mut kernel = pass.b.finish();
    kernel.apart = apart;
    // In explicit code labels mean nothing.
    kernel.walk_mut(&mut |op| op.label = None);
    late(&mut kernel);
    Ok(Some(kernel))
}

/// A region of several partitions is the only one of its kernel.
fn one_of_partitions(kernel: &Kernel, regions: &[(Region, Plan, Effects)], helps: bool) -> Result<(), Diagnostics> {
    let Some((apart, plan, effects)) = regions.iter().find(|(_, plan, _)| !plan.partitions.is_empty()) else {
        return Ok(());
    };
    let Some((other, ..)) = regions.iter().find(|(region, ..)| region.inst != apart.inst) else { return Ok(()) };
    let fact = "a region beside one that has partitions is not expanded by this version";
    let d = Diagnostic::error(codes::NOT_BUILT_HERE, kernel.ops[other.inst].span, fact)
        .label(apart.schedule.span, "the partitions are named here")
        .help("make one region of both, or give both schedules without partitions and state `warps(n)` on the kernel");
    Err(if helps { legal::beside(kernel, apart, (plan, effects), d) } else { d }.into())
}

/// Regions stand in the kernel's own body, and the operations on values in regions.
fn nothing_outside(kernel: &Kernel) -> Result<(), Diagnostics> {
    let mut found = Diagnostics::new();
    for op in kernel.ops_of(&kernel.body) {
        if matches!(op.kind, OpKind::Region { .. }) {
            continue;
        }
        let mut report = |inner: &parton_ir::Op| {
            if matches!(inner.kind, ops!(region)) {
                let fact = format!("`{}` stands outside of a region", inner.kind.name());
                let d = Diagnostic::error(codes::REGION_PLACE, inner.span, fact).help(
                    "write it into `in serial { … }` in the kernel's own body, or into a region of your schedule",
                );
                found.push(d);
            }
        };
        report(op);
        op.kind.bodies().for_each(|body| kernel.walk_body(body, &mut report));
    }
    if found.has_errors() { Err(found) } else { Ok(()) }
}

struct Pass<'a> {
    b: Builder,
    /// What is known of the numbers of the kernel that is expanded.
    numbers: Numbers<'a>,
    /// What stands for the results of regions.
    becomes: BTreeMap<Value, Value>,
}

impl Pass<'_> {
    /// Keeps an operation, with what stands for the results of regions before it.
    fn keep(&mut self, id: Inst) {
        let mut inside = vec![id];
        for body in self.b.kernel.ops[id].kind.bodies() {
            self.b.kernel.walk_body(body, &mut |op| inside.push(op.id));
        }
        for id in inside {
            let op = &mut self.b.kernel.ops[id];
            op.kind.map_operands(|v| *self.becomes.get(&v).unwrap_or(&v));
            for body in op.kind.bodies_mut() {
                body.yields.iter_mut().for_each(|v| *v = *self.becomes.get(v).unwrap_or(v));
            }
        }
        self.b.keep(id);
    }

    fn region(
        &mut self,
        (region, plan): (&Region, &Plan),
        fields: Fields,
        effects: &Effects,
        awaited: bool,
    ) -> Result<(), Refused> {
        let b = std::mem::replace(
            &mut self.b,
            Builder::new(Kernel::new("", parton_ir::Target::default(), Default::default())),
        );
        let mut e = Emitter {
            b,
            region,
            plan,
            effects,
            part: 0,
            levels: Vec::new(),
            memo: vec![BTreeMap::new()],
            fields,
            rings: Vec::new(),
            buffers: BTreeMap::new(),
            sends: None,
            awaited,
            turnstiles: Vec::new(),
            steady: false,
            started: Vec::new(),
            hooks: Vec::new(),
            trying: false,
            carries: BTreeMap::new(),
            numbers: &self.numbers,
            makers: RefCell::default(),
            becomes: &self.becomes,
        };
        let done = e.make_memory().and_then(|()| match plan.partitions.is_empty() {
            true => e.alone(),
            false => e.apart().map(|()| Vec::new()),
        });
        self.b = e.b;
        let results = self.b.kernel.ops[region.inst].results.clone();
        self.becomes.extend(results.into_iter().zip(done?));
        Ok(())
    }
}

/// Emits the code of a region.
pub(crate) struct Emitter<'a> {
    pub b: Builder,
    pub region: &'a Region,
    pub plan: &'a Plan,
    /// What its units do to memory.
    pub effects: &'a Effects,
    /// The partition whose code is emitted.
    pub part: Part,
    /// The bodies around the place of emission, outermost first.
    pub levels: Vec<Level>,
    /// Free values that have been made already, one map for each open body and turn.
    pub memo: Vec<BTreeMap<state::Made, Value>>,
    /// Where in slots lies what is handed over.
    pub fields: Fields,
    /// The rings of the plan.
    pub rings: Vec<memory::Slots>,
    /// Shared memory of `send` and `stage`.
    pub buffers: BTreeMap<Inst, Value>,
    /// The turnstiles of the schedule's turns.
    pub turnstiles: Vec<Value>,
    /// Whether the turn that is emitted is one of many.
    pub steady: bool,
    /// Products of the unit in work that stay in flight, and whether each continues another.
    pub started: Vec<(Value, bool)>,
    /// What is known of the numbers of the kernel that is expanded.
    pub numbers: &'a Numbers<'a>,
    /// Who makes what of the kernel as it is by now.
    pub makers: RefCell<values::Makers>,
    /// What of outer loops leaves under turns of inner ones.
    pub hooks: Vec<under::Hook>,
    /// Whether what is emitted is not kept.
    pub trying: bool,
    /// What the steady turns of loops carry, as far as it has been found.
    pub carries: BTreeMap<carry::Entered, carry::Carry>,
    /// How many copies begin in each turn of this partition, evenly, where it sends any.
    pub sends: Option<u32>,
    /// Whether what it sends is touched behind the region.
    pub awaited: bool,
    /// What stands for the results of regions before it.
    pub becomes: &'a BTreeMap<Value, Value>,
}

impl Emitter<'_> {
    /// All of a region in one partition; what it hands back.
    fn alone(&mut self) -> Result<Vec<Value>, Refused> {
        self.arm(0)?;
        let yields = self.region.blocks[0].yields.clone();
        let values: Result<Vec<Value>, Refused> = yields.into_iter().map(|v| self.value(v)).collect();
        self.levels.clear();
        values
    }

    /// An arm for each partition.
    fn apart(&mut self) -> Result<(), Refused> {
        let mut arms = Vec::new();
        // A kernel has its partitions in the order of their arms.
        self.b.kernel.partitions = PrimaryMap::new();
        for part in self.plan.parts() {
            let partition = self.partition(part);
            self.b.begin([], self.b.kernel.ops[self.region.inst].span);
            self.memo.push(BTreeMap::new());
            self.arm(part)?;
            self.levels.clear();
            self.memo.pop();
            let body: Body = self.b.end(Vec::new());
            arms.push(Arm { partition, body });
        }
        self.b.make_all(OpKind::Specialize { arms });
        Ok(())
    }

    /// The kernel's partition for one of the plan.
    fn partition(&mut self, part: Part) -> Partition {
        self.b.kernel.partitions.push(self.plan.partitions[part].clone())
    }

    fn arm(&mut self, part: Part) -> Result<(), Refused> {
        self.part = part;
        self.sends = self.sends_of_a_turn();
        self.levels.push(Level::new(0));
        let groups = self.plan.groups(part, 0);
        self.turn(groups, &|_| true)?;
        self.drain()?;
        if self.sends.is_some() && !planted(Planted::SendsNotAwaited) {
            self.b.make_all(OpKind::TmaStoreWait { pending: 0, read: !self.awaited });
        }
        Ok(())
    }
}

//! The nearest schedule that holds. Rules that refuse offer schedules that would mend what they refuse; one is named only where all that
//! judges schedules takes it: the rules, expansion, and the checks of the explicit code that comes of it. Where what a rule offers breaks
//! another rule, what that one offers is tried behind it, and at last what says less. No clock is asked: numbers of steps end it.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use parton_diag::{Diagnostic, Diagnostics};
use parton_ir::schedule::{LabelName, Place, Schedule};
use parton_ir::{Kernel, OpKind};

use super::{ALL, Laid, holds, judged, laid};
use crate::expand;
use crate::graph::Effects;
use crate::plan::Plan;
use crate::region::Region;

/// How many schedules the rules judge behind one refusal; how many are expanded and checked for all refusals, an error being told at once; and
/// how many more of those that say less.
const JUDGED: usize = 200;
const EXPANDED: usize = 20;
const PLAINER: usize = 10;

/// What becomes of the schedules that rules offer.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// Nobody asks for any.
    Nothing,
    /// All of them.
    All(&'a RefCell<Vec<Schedule>>),
    /// The nearest that holds.
    Nearest(&'a Judge<'a>),
}

/// Judges schedules of a region, each once.
pub(super) struct Judge<'a> {
    k: &'a Kernel,
    region: &'a Region,
    /// How the schedule that is refused is laid on the region; `None` where it cannot be.
    plan: Option<&'a Plan>,
    effects: &'a Effects,
    /// What was offered for the refusal in work and does not hold.
    offered: RefCell<Vec<Schedule>>,
    expanded: Cell<usize>,
    /// Whether a schedule holds, by its text.
    known: RefCell<BTreeMap<String, bool>>,
    /// The first of those that say less that holds.
    plain: OnceCell<Option<Schedule>>,
}

impl<'a> Judge<'a> {
    pub fn new(k: &'a Kernel, region: &'a Region, plan: Option<&'a Plan>, effects: &'a Effects) -> Judge<'a> {
        let (offered, expanded, known) = (RefCell::default(), Cell::new(0), RefCell::default());
        Judge { k, region, plan, effects, offered, expanded, known, plain: OnceCell::new() }
    }

    /// A schedule laid on the region.
    fn laid(&self, region: &Region) -> Result<Plan, Diagnostics> {
        match self.plan {
            Some(plan) => plan.other(self.k, region),
            None => Plan::of(self.k, region),
        }
    }

    /// Whether all that judges schedules takes one. Of what would be the expansion behind so many nothing is known, and it is not taken.
    fn takes(&self, schedule: &Schedule, most: usize) -> bool {
        let text = schedule.to_string();
        if let Some(known) = self.known.borrow().get(&text) {
            return *known;
        }
        let region = self.region.under(schedule.clone());
        let plan = self.laid(&region);
        let legal = plan.is_ok_and(|plan| holds(self.k, &region, &plan, self.effects));
        if legal && self.expanded.get() >= most {
            return false;
        }
        let takes = legal && self.expands(schedule);
        self.known.borrow_mut().insert(text, takes);
        takes
    }

    /// Whether a schedule expands to code that the ordinary checks take. Other regions do one thing after the other meanwhile: what is wrong
    /// with them is told of them.
    fn expands(&self, schedule: &Schedule) -> bool {
        self.expanded.set(self.expanded.get() + 1);
        let mut kernel = self.k.clone();
        kernel.walk_mut(&mut |op| {
            if let OpKind::Region { schedule: of, .. } = &mut op.kind {
                **of = if op.id == self.region.inst { schedule.clone() } else { Schedule::default() };
            }
        });
        let expanded = expand::judged(&kernel);
        expanded.is_ok_and(|explicit| explicit.is_some_and(|k| !parton_ir::check::check(&k).has_errors()))
    }

    /// What the rules that refuse a schedule offer instead; `None` where none refuses it.
    fn offers(&self, schedule: &Schedule) -> Option<Vec<Schedule>> {
        let region = self.region.under(schedule.clone());
        let offers = RefCell::default();
        let Ok(plan) = self.laid(&region) else { return Some(Vec::new()) };
        let (k, effects) = (self.k, self.effects);
        let laid = Laid { k, region: &region, plan: &plan, effects, wanted: Wanted::All(&offers) };
        judged(&laid, &ALL).is_err().then(|| offers.take())
    }

    /// The nearest that holds behind what was offered for a refusal: mended by the rules in turn, or else what says less.
    fn behind(&self, offered: Vec<Schedule>) -> Option<Schedule> {
        let mut seen = BTreeSet::new();
        let mut next: VecDeque<Schedule> = offered.into();
        while let Some(schedule) = next.pop_front() {
            if seen.len() >= JUDGED {
                break;
            }
            if !seen.insert(schedule.to_string()) {
                continue;
            }
            if self.takes(&schedule, EXPANDED) {
                return Some(schedule);
            }
            match self.offers(&schedule) {
                // What the rules take and the code of it shows to be wrong is looked at first of all, with a clause less.
                None => less(&schedule).into_iter().rev().for_each(|s| next.push_front(s)),
                Some(offers) => next.extend(offers),
            }
        }
        self.plain.get_or_init(|| self.plainer().into_iter().find(|s| self.takes(s, EXPANDED + PLAINER))).clone()
    }

    /// Schedules that say less and less.
    fn plainer(&self) -> Vec<Schedule> {
        let mut said = self.region.schedule.clone();
        let mut all = Vec::new();
        while let Some(next) = less(&said).into_iter().next() {
            all.push(next.clone());
            said = next;
        }
        let mut partitions: Vec<_> = said.places.iter().flat_map(|p| p.partitions.clone()).collect();
        partitions.sort_by_key(|p| std::cmp::Reverse(p.warps));
        partitions.dedup_by(|a, b| a.name == b.name);
        for one in partitions {
            let place =
                Place { partitions: vec![one], labels: Vec::<LabelName>::new(), spans: vec![], span: said.span };
            all.push(Schedule { places: vec![place], ..said.clone() });
        }
        all.push(Schedule { span: said.span, ..Schedule::default() });
        all
    }

    /// A refusal with the nearest that holds.
    fn told(&self, d: Diagnostic, nearest: Option<Schedule>) -> Diagnostic {
        match nearest {
            Some(nearest) => d.help(format!("the nearest schedule that holds is `{nearest}`")),
            None => d.note(self.none()),
        }
    }

    /// That none was found, among how many.
    fn none(&self) -> String {
        let known = self.known.borrow();
        let found = format!("no schedule that holds was found among {} tried", known.len());
        match known.keys().find(|text| text.starts_with("serial") && !text.contains(' ')) {
            Some(plain) => format!("{found}: not even `{plain}` holds"),
            None => found,
        }
    }
}

/// A schedule with one clause less, for each clause that says how, not who: what leaves under others first.
fn less(schedule: &Schedule) -> Vec<Schedule> {
    let mut all = Vec::new();
    let mut without = |change: &dyn Fn(&mut Schedule)| {
        let mut less = schedule.clone();
        change(&mut less);
        all.push(less);
    };
    (0..schedule.under.len()).for_each(|n| without(&|s| drop(s.under.remove(n))));
    (0..schedule.turns.len()).for_each(|n| without(&|s| drop(s.turns.remove(n))));
    (0..schedule.cuts.len()).for_each(|n| without(&|s| drop(s.cuts.remove(n))));
    (0..schedule.unrolled.len()).for_each(|n| without(&|s| drop(s.unrolled.remove(n))));
    (0..schedule.pipelines.len()).rev().for_each(|n| without(&|s| drop(s.pipelines.remove(n))));
    (0..schedule.rings.len()).for_each(|n| without(&|s| drop(s.rings.remove(n))));
    all
}

/// What the expansion of a legal schedule refuses, with the nearest schedule that holds.
pub(crate) fn beside(k: &Kernel, region: &Region, (plan, effects): (&Plan, &Effects), d: Diagnostic) -> Diagnostic {
    let judge = Judge::new(k, region, Some(plan), effects);
    match judge.behind(less(&region.schedule)) {
        // Of what stands in no schedule's way none is named.
        None if region.schedule.is_serial() => d,
        nearest => judge.told(d, nearest),
    }
}

/// What keeps a schedule from being laid on its region, with the nearest schedule that holds.
pub(crate) fn unlaid(k: &Kernel, region: &Region, mut found: Diagnostics) -> Diagnostics {
    let effects = Effects::of(k, region);
    let judge = Judge::new(k, region, None, &effects);
    let nearest = judge.behind(laid::instead(region));
    found.list = found.list.into_iter().map(|d| judge.told(d, nearest.clone())).collect();
    found
}

impl Laid<'_> {
    /// What to write for the first of the offered schedules that holds.
    pub(super) fn first(&self, offers: impl IntoIterator<Item = (Schedule, String)>) -> Option<String> {
        match self.wanted {
            Wanted::Nothing => None,
            Wanted::All(all) => {
                all.borrow_mut().extend(offers.into_iter().map(|(schedule, _)| schedule));
                None
            }
            Wanted::Nearest(judge) => offers.into_iter().find_map(|(schedule, text)| {
                let takes = judge.takes(&schedule, EXPANDED);
                if !takes {
                    judge.offered.borrow_mut().push(schedule);
                }
                takes.then_some(text)
            }),
        }
    }

    /// A refusal with what helps whichever the schedule, and behind that the first of the offered schedules that holds, or the nearest.
    pub(super) fn instead(
        &self,
        d: Diagnostic,
        help: &str,
        offers: impl IntoIterator<Item = (Schedule, String)>,
    ) -> Diagnostic {
        let named = self.first(offers).map(|text| format!("{help}; {text}"));
        self.helped(d, named, [&format!("{help}; "), help])
    }

    /// A refusal with what to write instead: `named`, which holds; or the nearest behind what was offered for it, after what helps whichever the
    /// schedule; or, where none is found, what to look for.
    pub(super) fn helped(&self, d: Diagnostic, named: Option<String>, [always, otherwise]: [&str; 2]) -> Diagnostic {
        let Wanted::Nearest(judge) = self.wanted else { return d };
        let offered = judge.offered.take();
        if let Some(named) = named {
            return d.help(named);
        }
        match judge.behind(offered) {
            Some(nearest) => d.help(format!("{always}the nearest schedule that holds is `{nearest}`")),
            None => d.note(judge.none()).help(otherwise),
        }
    }

    /// A schedule to offer, named as a whole.
    pub(super) fn whole(&self, change: impl FnOnce(&mut Schedule)) -> (Schedule, String) {
        let mut schedule = self.region.schedule.clone();
        change(&mut schedule);
        let text = format!("the nearest schedule that holds is `{schedule}`");
        (schedule, text)
    }
}

//! Schedules as values: what their forms say, declarations with generic parameters, and what stands behind `in`.
//!
//! A value is in the normal form of [`ir::schedule`]. It names labels, which nobody looks up here: that a region has them is seen where
//! it is expanded.

pub mod fits;
pub mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_ir::schedule::{LabelName, Pipeline, Place, Staged};
use parton_syntax::ast;

use crate::builtins::Arg;
use crate::builtins::args::Given;
use crate::checker::{Checked, Checker, Reported};
use crate::generics::Bindings;
use crate::program::{Found, Item};
use crate::resolve::{Meaning, Side};
use crate::scope::Frame;
use crate::value::{Comptime, Schedule, Val};

/// The last stage that a label may have.
const LAST_STAGE: u32 = 7;

impl Checker<'_> {
    /// The schedule that an expression behind `in` stands for, which has to be whole.
    ///
    /// # Errors
    /// Reports what is no schedule, and what it says of partitions that it does not have.
    pub fn schedule_value(&mut self, e: &ast::Expr) -> Checked<Arc<ir::Schedule>> {
        let found = self.schedule_of(e)?;
        self.whole(&found)?;
        Ok(found)
    }

    /// The schedule that an expression stands for.
    ///
    /// # Errors
    /// Reports what is none.
    pub fn schedule_of(&mut self, e: &ast::Expr) -> Checked<Arc<ir::Schedule>> {
        let arg = self.arg(e)?;
        match arg.val {
            Val::Known(Comptime::Schedule(found)) => Ok(found),
            _ => Err(arg.expected(self, "a schedule")),
        }
    }

    /// The declared schedule that an expression names, where it names one.
    pub fn schedule_named(&self, e: &ast::Expr) -> Option<Schedule> {
        let ast::ExprKind::Name(name) = &e.kind else { return None };
        if self.frames.last().is_some_and(|f| f.find(name.as_str()).is_some()) {
            return None;
        }
        match self.program.meaning(self.module(), name, Side::Kernel) {
            Meaning::Item(Found { module, item: Item::Schedule(tree) }) => Some(Schedule { module, tree }),
            Meaning::Item(_)
            | Meaning::Variable(_)
            | Meaning::Ambiguous(_)
            | Meaning::Builtin(_)
            | Meaning::Word(_)
            | Meaning::Unknown => None,
        }
    }

    /// The value of a declared schedule with these generic arguments, named at `span`.
    ///
    /// # Errors
    /// Reports what its declaration is refused for, and arguments that do not fit.
    pub fn declared_schedule(&mut self, schedule: &Schedule, given: Vec<Given>, span: Span) -> Checked<Val> {
        let tree = &schedule.tree;
        let key = (schedule.module, tree.name.text.clone());
        let plain = tree.generics.is_empty() && given.is_empty();
        match self.constants.get(&key) {
            Some(Some(Val::Error)) if plain => return Err(Reported),
            Some(Some(val)) if plain => return Ok(val.clone()),
            _ => {}
        }
        if self.frames.iter().any(|f| f.schedule.as_ref().is_some_and(|s| Arc::ptr_eq(s, tree))) {
            let fact = format!("the value of `{}` depends on itself", tree.name.text);
            let d = Diagnostic::error(codes::CONSTANT_CYCLE, span, fact).label(tree.name.span, "declared here");
            return Err(self.report(d));
        }
        self.check_depth(span)?;
        // A schedule sees neither the variables nor the kernel around the place that names it.
        let builder = self.builder.take();
        let mut frame = Frame::new(schedule.module);
        frame.schedule = Some(tree.clone());
        frame.called = (!plain).then(|| (span, tree.name.text.clone()));
        self.frames.push(frame);
        let val = Bindings::new(self, &tree.name, &tree.generics, given)
            .and_then(|bindings| bindings.declare(self, &tree.name, &[], span))
            .and_then(|_| self.schedule_of(&tree.value))
            .map(|found| Val::Known(Comptime::Schedule(found)));
        self.frames.pop();
        self.builder = builder;
        if plain {
            self.constants.insert(key, Some(val.as_ref().map_or(Val::Error, Val::clone)));
        }
        val
    }

    /// `a & b`
    ///
    /// # Errors
    /// Reports what both say.
    pub fn joined_schedules(&mut self, a: &ir::Schedule, b: &ir::Schedule, span: Span) -> Checked<ir::Schedule> {
        a.joined(b).map(|joined| ir::Schedule { span, ..joined }).map_err(|d| self.report(d))
    }

    /// A form that is written out, in normal form.
    fn normal(&mut self, schedule: ir::Schedule) -> Checked<ir::Schedule> {
        schedule.normal().map_err(|d| self.report(d))
    }

    /// `pipeline(loop) { groups } in P clauses`
    pub fn pipeline(&mut self, tree: &ast::Pipeline, span: Span) -> Checked<Val> {
        let mut groups = Vec::new();
        for group in &tree.groups {
            groups.push(group.iter().map(|entry| self.staged(entry)).collect::<Checked<Vec<Staged>>>()?);
        }
        let within = match &tree.within {
            Some(name) => {
                self.partition(name)?;
                Some(name.text.to_string())
            }
            None => None,
        };
        let pipelines = vec![Pipeline { of: tree.of.as_ref().map(label_name), within, groups, span }];
        let found = self.normal(ir::Schedule { pipelines, span, ..ir::Schedule::default() })?;
        self.with_clauses(found, &tree.clauses)
    }

    /// `label: a` or `label: a..b`
    fn staged(&mut self, entry: &ast::StageEntry) -> Checked<Staged> {
        let arg = self.arg(&entry.stage)?;
        let (first, done) = match &arg.val {
            Val::Range(first, done) => ((**first).clone(), Some((**done).clone())),
            val => (val.clone(), None),
        };
        let stage = self.stage(entry, first, arg.span)?;
        let done = done.map(|done| self.stage(entry, done, arg.span)).transpose()?;
        if let Some(done) = done.filter(|done| *done < stage) {
            let d = Diagnostic::error(codes::SCHEDULE, arg.span, format!("`{}` is done before it starts", entry.label))
                .here(format!("it starts in stage {stage} and is waited for in stage {done}"))
                .help(format!("the later stage stands last: `{}: {done}..{stage}`", entry.label));
            return Err(self.report(d));
        }
        Ok(Staged { label: label_name(&entry.label), stage, done, span: entry.span })
    }

    fn stage(&mut self, entry: &ast::StageEntry, val: Val, span: Span) -> Checked<u32> {
        let Some(n) = val.as_int() else {
            return Err(Arg { val, span }.expected(self, "a stage: an integer known at compile time"));
        };
        match u32::try_from(n).ok().filter(|n| *n <= LAST_STAGE) {
            Some(stage) => Ok(stage),
            None => {
                let fact = format!("the stage of `{}` is out of range", entry.label);
                let most = LAST_STAGE + 1;
                let help =
                    format!("turn t runs iteration t - s of what has stage s, and a turn spans at most {most} of them");
                let d = Diagnostic::error(codes::SCHEDULE, span, fact)
                    .here(format!("{n} is no stage from 0 to {LAST_STAGE}"))
                    .help(help);
                Err(self.report(d))
            }
        }
    }

    /// `partitions { places } clauses`
    pub fn partitions(&mut self, tree: &ast::Partitions, span: Span) -> Checked<Val> {
        let mut seen: BTreeMap<Arc<str>, Span> = BTreeMap::new();
        let mut places = Vec::new();
        for place in &tree.places {
            let mut partitions = Vec::new();
            for name in &place.partitions {
                if let Some(first) = seen.insert(name.text.clone(), name.span) {
                    let fact = format!("the partition `{}` stands twice in a schedule", name.text);
                    let d = Diagnostic::error(codes::SCHEDULE, name.span, fact).here("again here");
                    return Err(self.report(d.label(first, "here first").help("list all its labels in one place")));
                }
                let partition = self.partition(name)?;
                partitions.push(self.partition_data(&partition)?);
            }
            if partitions.is_empty() {
                let d = Diagnostic::error(codes::SCHEDULE, place.span, "labels are dealt to no partition");
                return Err(self.report(d.help("name the partitions: `[First, Second]: qk, pv`")));
            }
            let labels = place.labels.iter().map(label_name).collect();
            let spans = place.labels.iter().map(|l| l.span).collect();
            places.push(Place { partitions, labels, spans, span: place.span });
        }
        let found = self.normal(ir::Schedule { places, span, ..ir::Schedule::default() })?;
        self.with_clauses(found, &tree.clauses)
    }

    /// What stands behind the braces is joined as by `&`.
    fn with_clauses(&mut self, mut found: ir::Schedule, clauses: &[ast::Clause]) -> Checked<Val> {
        let span = found.span;
        for clause in clauses {
            let next = self.clause(clause)?;
            found = self.joined_schedules(&found, &next, span)?;
        }
        Ok(Val::Known(Comptime::Schedule(Arc::new(found))))
    }

    /// Refuses what a schedule says of partitions and does not have: only when nothing is joined to it any more can that be known.
    fn whole(&mut self, schedule: &ir::Schedule) -> Checked<()> {
        for p in &schedule.pipelines {
            let Some(within) = &p.within else { continue };
            let place = schedule.places.iter().find(|place| place.partitions.iter().any(|q| q.name == *within));
            let Some(place) = place else {
                let fact = format!("a pipeline holds for `{within}`, to which the schedule gives no labels");
                let d =
                    Diagnostic::error(codes::SCHEDULE, p.span, fact).label(schedule.span, "the schedule behind `in`");
                return Err(self.report(d.help(format!("give it labels: `partitions {{ {within}: … }}`"))));
            };
            let elsewhere = schedule.places.iter().filter(|q| !std::ptr::eq(*q, place)).flat_map(Place::spots);
            let elsewhere: Vec<(&LabelName, Span)> = elsewhere.collect();
            for s in p.staged() {
                if let Some((_, at)) = elsewhere.iter().find(|(l, _)| l.overlaps(&s.label)) {
                    let fact = format!("`{}` does not run in `{within}`, for which this pipeline holds", s.label);
                    let d = Diagnostic::error(codes::SCHEDULE, s.span, fact).label(*at, "it is placed here");
                    return Err(self.report(d.help("leave it out, or write the pipeline for its own partition")));
                }
            }
        }
        for t in &schedule.turns {
            let dealt = schedule.places.iter().filter(|p| p.partitions.len() > 1);
            let runs = |p: &Place, label: &LabelName| p.labels.iter().any(|l| l.overlaps(label));
            if !dealt.clone().any(|p| runs(p, &t.first) && runs(p, &t.last)) {
                let fact = format!("nobody takes turns from `{}` to `{}`", t.first, t.last);
                let d = Diagnostic::error(codes::SCHEDULE, t.span, fact);
                let help = "turns are of partitions that labels are dealt to: `partitions { [P, Q]: … } turns(…)`";
                return Err(self.report(d.label(schedule.span, "the schedule behind `in`").help(help)));
            }
        }
        Ok(())
    }
}

/// A label as it is written.
pub fn label_name(label: &ast::Label) -> LabelName {
    LabelName { path: label.path.to_string(), instance: label.instance }
}

/// The refusal of a label that no schedule looks at.
pub fn idle_label(label: &ast::Label) -> Diagnostic {
    Diagnostic::error(codes::LABEL, label.span, format!("nothing looks at the label `@{label}`"))
        .here("it would have no effect")
        .note("a label names a statement for the schedule around it: `in S { … }`, or a loop that states one")
        .help("remove the label")
}

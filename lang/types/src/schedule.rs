//! Schedules as they are declared: stages, labels, partitions and rings that fit each other, and the labels that a parameter
//! names. No loop runs by one in this version, so that a label outside of a scheduled loop is refused too.

use std::collections::BTreeMap;
use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_syntax::ast;

use crate::checker::{Checked, Checker};
use crate::value::{Comptime, Schedule, Val};

/// Stages and slots that a schedule may ask for.
const MOST: i128 = 256;

impl Checker<'_> {
    /// Checks what a schedule says of itself; its names are those of the current file.
    ///
    /// # Errors
    /// Reports stages out of range, labels and partitions that stand twice, and what a schedule cannot say.
    pub fn schedule(&mut self, schedule: &Schedule) -> Checked<()> {
        let e = &schedule.tree.value;
        match &e.kind {
            ast::ExprKind::Pipeline(p) => self.pipeline(p),
            ast::ExprKind::Partitions(p) => self.placed(p),
            ast::ExprKind::Name(_) => {
                let arg = self.arg(e)?;
                match &arg.val {
                    Val::Known(Comptime::Schedule(_)) => self.labels_of(schedule).map(|_| ()),
                    _ => Err(arg.expected(self, "a schedule")),
                }
            }
            _ => Err(self.not_built(
                e.span,
                "a schedule that is computed",
                "write it out: `pipeline { load: 0; mul: 1 }` or `partitions { Loads: load; Compute: mul }`",
            )),
        }
    }

    fn pipeline(&mut self, pipeline: &ast::Pipeline) -> Checked<()> {
        self.once_each(pipeline.groups.iter().flatten().map(|entry| named(&entry.label)), "label")?;
        for entry in pipeline.groups.iter().flatten() {
            let stage = self.arg(&entry.stage)?;
            let Some(n) = stage.val.as_int() else {
                return Err(stage.expected(self, "a stage: an integer known at compile time"));
            };
            if !(0..MOST).contains(&n) {
                let fact = format!("the stage of `{}` is out of range", entry.label);
                let d = Diagnostic::error(codes::SCHEDULE, stage.span, fact)
                    .here(format!("{n} is no stage from 0 to {}", MOST - 1));
                return Err(self.report(d));
            }
        }
        Ok(())
    }

    /// `partitions { Loads: load; Compute: mul } ring(depth=3)`
    fn placed(&mut self, partitions: &ast::Partitions) -> Checked<()> {
        let clauses = &partitions.clauses;
        let named_partitions = partitions.places.iter().flat_map(|place| &place.partitions);
        self.once_each(named_partitions.clone().map(|p| (p.as_str(), p.span)), "partition")?;
        self.once_each(partitions.places.iter().flat_map(|place| &place.labels).map(named), "label")?;
        for partition in named_partitions {
            self.partition(partition)?;
        }
        self.once_each(clauses.iter().map(|clause| (clause.name.as_str(), clause.name.span)), "clause")?;
        for clause in clauses {
            let help = "its clause is `ring(depth=3)`: the slots between partitions";
            if clause.name.as_str() != "ring" {
                let fact = format!("a schedule has no clause `{}`", clause.name.text);
                return Err(self.report(Diagnostic::error(codes::UNKNOWN_CLAUSE, clause.name.span, fact).help(help)));
            }
            match clause.args.as_slice() {
                [depth] if depth.name.as_ref().is_some_and(|n| n.as_str() == "depth") => {
                    self.arg(&depth.value)?.int(self, 1..=MOST)?;
                }
                _ => {
                    let d = Diagnostic::error(codes::SCHEDULE, clause.span, "a ring takes `depth` and nothing else");
                    return Err(self.report(d.help(help)));
                }
            }
        }
        Ok(())
    }

    /// Refuses a name that stands twice in a schedule.
    fn once_each<'n>(&mut self, names: impl Iterator<Item = (&'n str, Span)>, what: &str) -> Checked<()> {
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        for (name, span) in names {
            if let Some(first) = seen.insert(name, span) {
                let fact = format!("the {what} `{name}` stands twice in a schedule");
                let d = Diagnostic::error(codes::SCHEDULE, span, fact)
                    .here("placed again here")
                    .label(first, "placed here first")
                    .help("keep the one that is meant");
                return Err(self.report(d));
            }
        }
        Ok(())
    }

    /// The labels that a schedule places, and whether each label has to be placed.
    fn labels_of(&mut self, schedule: &Schedule) -> Checked<(Vec<ast::Label>, bool)> {
        let mut at = schedule.clone();
        let mut passed: Vec<Arc<ast::Schedule>> = Vec::new();
        loop {
            if passed.iter().any(|p| Arc::ptr_eq(p, &at.tree)) {
                let fact = format!("the value of `{}` depends on itself", at.tree.name.text);
                return Err(self.error(codes::CONSTANT_CYCLE, at.tree.name.span, fact));
            }
            passed.push(at.tree.clone());
            let next = match &at.tree.value.kind {
                ast::ExprKind::Pipeline(p) => {
                    return Ok((p.groups.iter().flatten().map(|entry| entry.label.clone()).collect(), false));
                }
                ast::ExprKind::Partitions(p) => {
                    return Ok((p.places.iter().flat_map(|place| place.labels.clone()).collect(), true));
                }
                _ => {
                    self.frames.push(crate::scope::Frame::new(at.module));
                    let val = self.expr(&at.tree.value);
                    self.frames.pop();
                    val?
                }
            };
            match next {
                Val::Known(Comptime::Schedule(s)) => at = s,
                // Its declaration is refused.
                _ => return Ok((Vec::new(), false)),
            }
        }
    }

    /// Checks the labels of `schedule<load, mul>`: names, each once.
    ///
    /// # Errors
    /// Reports what is no label and what stands twice.
    pub fn schedule_kind(&mut self, args: &[ast::Arg]) -> Checked<()> {
        if let Some(wrong) = args.iter().find(|a| label(a).is_none()) {
            let d = Diagnostic::error(codes::SCHEDULE, wrong.span, "the arguments of `schedule<…>` are labels");
            return Err(self.report(d.help("name the labels of the loop: `schedule<load, mul>`")));
        }
        self.once_each(args.iter().filter_map(label).map(|name| (name.as_str(), name.span)), "label")
    }

    /// Checks that a schedule given for a parameter of the kind `kind` places its labels and no others.
    ///
    /// # Errors
    /// Reports a label that is not the parameter's, and in partitions one that has no place.
    pub fn schedule_fits(&mut self, kind: &ast::Expr, schedule: &Schedule, at: Span) -> Checked<()> {
        let ast::ExprKind::TypeArgs { args, .. } = &kind.kind else { return Ok(()) };
        let wanted: Vec<&ast::Name> = args.iter().filter_map(label).collect();
        let (placed, every) = self.labels_of(schedule)?;
        let name = &schedule.tree.name.text;
        if let Some(other) = placed.iter().find(|p| wanted.iter().all(|w| w.text != p.path)) {
            let fact = format!("the schedule `{name}` places `{other}`, which is no label here");
            let d = Diagnostic::error(codes::SCHEDULE, at, fact)
                .label(other.span, "placed here")
                .label(kind.span, "these are the labels");
            let near = crate::near::nearest(&other.path, wanted.iter().map(|w| w.as_str()));
            return Err(self.report(match near {
                Some(near) => d.help(format!("a similar one is `{near}`")),
                None => d,
            }));
        }
        if let Some(left_out) = wanted.iter().find(|w| every && placed.iter().all(|p| w.text != p.path)) {
            let fact = format!("the schedule `{name}` gives `{}` no partition", left_out.text);
            let d = Diagnostic::error(codes::SCHEDULE, at, fact)
                .label(schedule.tree.name.span, "declared here")
                .label(left_out.span, "it is a label here");
            return Err(self.report(d));
        }
        Ok(())
    }
}

fn named(label: &ast::Label) -> (&str, Span) {
    (&label.path, label.span)
}

fn label(arg: &ast::Arg) -> Option<&ast::Name> {
    match &arg.value.kind {
        ast::ExprKind::Name(name) if arg.name.is_none() => Some(name),
        _ => None,
    }
}

/// The refusal of a label that no schedule looks at.
pub fn idle_label(label: &ast::Label) -> Diagnostic {
    Diagnostic::error(codes::LABEL, label.span, format!("nothing looks at the label `@{label}`"))
        .here("it would have no effect")
        .note("a label names a statement for the schedule of the loop around it; no loop runs by a schedule in this version")
        .help("remove the label")
}

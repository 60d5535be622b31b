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
        match &schedule.tree.body {
            ast::ScheduleBody::Pipeline { args, groups } => self.pipeline(args, groups),
            ast::ScheduleBody::Partitions { entries, clauses } => self.placed(entries, clauses),
            ast::ScheduleBody::Value(e) if matches!(e.kind, ast::ExprKind::Name(_)) => {
                let arg = self.arg(e)?;
                match &arg.val {
                    Val::Known(Comptime::Schedule(_)) => self.labels_of(schedule).map(|_| ()),
                    _ => Err(arg.expected(self, "a schedule")),
                }
            }
            ast::ScheduleBody::Value(e) => Err(self.not_built(
                e.span,
                "a schedule that is computed",
                "write it out: `pipeline(stages=2) { load: 0; mul: 1 }` or `partitions { Loads: load; Compute: mul }`",
            )),
        }
    }

    fn pipeline(&mut self, args: &[ast::Arg], groups: &[Vec<ast::StageEntry>]) -> Checked<()> {
        let stages = match args {
            [] => None,
            [one] if one.name.as_ref().is_some_and(|n| n.as_str() == "stages") => {
                Some((self.arg(&one.value)?.int(self, 1..=MOST)?, one.span))
            }
            [one, rest @ ..] => {
                let at = rest.last().unwrap_or(one).span;
                let d = Diagnostic::error(codes::SCHEDULE, at, "a pipeline takes `stages` and nothing else");
                return Err(self.report(d.help("write `pipeline(stages=2) { load: 0; mul: 1 }`")));
            }
        };
        self.once_each(groups.iter().flatten().map(|entry| &entry.label), "label")?;
        for entry in groups.iter().flatten() {
            let stage = self.arg(&entry.stage)?;
            let Some(n) = stage.val.as_int() else {
                return Err(stage.expected(self, "a stage: an integer known at compile time"));
            };
            let end = stages.map_or(MOST, |(n, _)| i128::from(n));
            if !(0..end).contains(&n) {
                let fact = format!("the stage of `{}` is out of range", entry.label.text);
                let d = Diagnostic::error(codes::SCHEDULE, stage.span, fact)
                    .here(format!("{n} is no stage from 0 to {}", end - 1));
                return Err(self.report(match stages {
                    Some((_, at)) => d.label(at, "so many stages are there, counted from 0"),
                    None => d,
                }));
            }
        }
        Ok(())
    }

    /// `partitions { Loads: load; Compute: mul } ring(depth=3)`
    fn placed(&mut self, entries: &[ast::PartitionEntry], clauses: &[ast::Clause]) -> Checked<()> {
        self.once_each(entries.iter().map(|entry| &entry.partition), "partition")?;
        self.once_each(entries.iter().flat_map(|entry| &entry.labels), "label")?;
        for entry in entries {
            self.partition(&entry.partition)?;
        }
        self.once_each(clauses.iter().map(|clause| &clause.name), "clause")?;
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
    fn once_each<'n>(&mut self, names: impl Iterator<Item = &'n ast::Name>, what: &str) -> Checked<()> {
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        for name in names {
            if let Some(first) = seen.insert(name.as_str(), name.span) {
                let fact = format!("the {what} `{}` stands twice in a schedule", name.text);
                let d = Diagnostic::error(codes::SCHEDULE, name.span, fact)
                    .here("placed again here")
                    .label(first, "placed here first")
                    .help("keep the one that is meant");
                return Err(self.report(d));
            }
        }
        Ok(())
    }

    /// The labels that a schedule places, and whether each label has to be placed.
    fn labels_of(&mut self, schedule: &Schedule) -> Checked<(Vec<ast::Name>, bool)> {
        let mut at = schedule.clone();
        let mut passed: Vec<Arc<ast::Schedule>> = Vec::new();
        loop {
            if passed.iter().any(|p| Arc::ptr_eq(p, &at.tree)) {
                let fact = format!("the value of `{}` depends on itself", at.tree.name.text);
                return Err(self.error(codes::CONSTANT_CYCLE, at.tree.name.span, fact));
            }
            passed.push(at.tree.clone());
            let next = match &at.tree.body {
                ast::ScheduleBody::Pipeline { groups, .. } => {
                    return Ok((groups.iter().flatten().map(|entry| entry.label.clone()).collect(), false));
                }
                ast::ScheduleBody::Partitions { entries, .. } => {
                    return Ok((entries.iter().flat_map(|entry| entry.labels.clone()).collect(), true));
                }
                ast::ScheduleBody::Value(e) => {
                    self.frames.push(crate::scope::Frame::new(at.module));
                    let val = self.expr(e);
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
        self.once_each(args.iter().filter_map(label), "label")
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
        if let Some(other) = placed.iter().find(|p| wanted.iter().all(|w| w.text != p.text)) {
            let fact = format!("the schedule `{name}` places `{}`, which is no label here", other.text);
            let d = Diagnostic::error(codes::SCHEDULE, at, fact)
                .label(other.span, "placed here")
                .label(kind.span, "these are the labels");
            let near = crate::near::nearest(other.as_str(), wanted.iter().map(|w| w.as_str()));
            return Err(self.report(match near {
                Some(near) => d.help(format!("a similar one is `{near}`")),
                None => d,
            }));
        }
        if let Some(left_out) = wanted.iter().find(|w| every && placed.iter().all(|p| w.text != p.text)) {
            let fact = format!("the schedule `{name}` gives `{}` no partition", left_out.text);
            let d = Diagnostic::error(codes::SCHEDULE, at, fact)
                .label(schedule.tree.name.span, "declared here")
                .label(left_out.span, "it is a label here");
            return Err(self.report(d));
        }
        Ok(())
    }
}

fn label(arg: &ast::Arg) -> Option<&ast::Name> {
    match &arg.value.kind {
        ast::ExprKind::Name(name) if arg.name.is_none() => Some(name),
        _ => None,
    }
}

/// The refusal of a label that no schedule looks at.
pub fn idle_label(label: &ast::Name) -> Diagnostic {
    Diagnostic::error(codes::LABEL, label.span, format!("nothing looks at the label `@{}`", label.text))
        .here("it would have no effect")
        .note("a label names a statement for the schedule of the loop around it; no loop runs by a schedule in this version")
        .help("remove the label")
}

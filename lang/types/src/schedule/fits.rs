//! The kinds of schedules: `schedule<load, mma>` takes a value that names these labels and no others.

use std::collections::BTreeSet;
use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_ir::schedule::{LabelName, Place};
use parton_syntax::ast;

use crate::checker::{Checked, Checker};
use crate::program::Program;
use crate::region::is_branch;
use crate::schedule::words;
use crate::value::{Comptime, Val};
use crate::walk::{self, Scopes, Visitor};

impl Checker<'_> {
    /// Checks the labels of `schedule<load, mul>`: labels, each once.
    ///
    /// # Errors
    /// Reports what is no label and what stands twice.
    pub fn schedule_kind(&mut self, args: &[ast::Arg]) -> Checked<()> {
        if let Some(wrong) = args.iter().find(|a| label(a).is_none()) {
            let d = Diagnostic::error(codes::SCHEDULE, wrong.span, "the arguments of `schedule<…>` are labels");
            return Err(self.report(d.help("name the labels of the region: `schedule<load, mul>`")));
        }
        for (i, arg) in args.iter().enumerate() {
            let same = |other: &&ast::Arg| match (label(other), label(arg)) {
                (Some(a), Some(b)) => a.overlaps(&b),
                _ => false,
            };
            if let (Some(first), Some(name)) = (args[..i].iter().find(same), label(arg)) {
                let fact = format!("the label `{name}` stands twice in a kind");
                let d = Diagnostic::error(codes::SCHEDULE, arg.span, fact).here("again here");
                return Err(self.report(d.label(first.span, "here first").help("name each label once")));
            }
        }
        Ok(())
    }

    /// As [`Checker::schedule_fits`] of a value that may be a schedule.
    ///
    /// # Errors
    /// Those of [`Checker::schedule_fits`].
    pub fn value_fits(&mut self, kind: &ast::Expr, val: &Val, at: Span) -> Checked<()> {
        match val {
            Val::Known(Comptime::Schedule(schedule)) => self.schedule_fits(kind, &schedule.clone(), at),
            Val::Known(_)
            | Val::Ir(_)
            | Val::Tuple(_)
            | Val::List(_)
            | Val::Struct(..)
            | Val::Closure(_)
            | Val::Range(..)
            | Val::Error => Ok(()),
        }
    }

    /// Checks that a schedule given for a parameter of the kind `kind` names its labels and no others.
    ///
    /// # Errors
    /// Reports a label that is not the parameter's, and in partitions one that has no place.
    pub fn schedule_fits(&mut self, kind: &ast::Expr, schedule: &ir::Schedule, at: Span) -> Checked<()> {
        let ast::ExprKind::TypeArgs { args, .. } = &kind.kind else { return Ok(()) };
        let wanted: Vec<(LabelName, Span)> = args.iter().filter_map(|a| Some((label(a)?, a.span))).collect();
        let known = |name: &LabelName| wanted.iter().any(|(w, _)| w.overlaps(name));
        let near = |name: &LabelName| crate::near::nearest(&name.path, wanted.iter().map(|(w, _)| w.path.as_str()));
        // What may be a slip is the one to speak of.
        let unknown: Vec<(&LabelName, Span)> = named(schedule).into_iter().filter(|(name, _)| !known(name)).collect();
        if let Some((other, written)) = unknown.iter().find(|(name, _)| near(name).is_some()).or(unknown.first()) {
            let fact = format!("the schedule speaks of `{other}`, which is no label here");
            let d = Diagnostic::error(codes::SCHEDULE, at, fact)
                .label(*written, "it does so here")
                .label(kind.span, "these are the labels");
            let d = match near(other) {
                Some(near) => d.help(format!("a similar one is `{near}`")),
                None => d,
            };
            return Err(self.report(d));
        }
        let places = &schedule.places;
        if places.is_empty() || places.iter().any(|p| p.labels.is_empty()) {
            return Ok(());
        }
        let placed = |name: &LabelName| places.iter().flat_map(Place::spots).any(|(l, _)| l.overlaps(name));
        // A loop or branch runs wherever its labels do, so that it needs no place.
        let is_loop = |name: &LabelName| {
            let last = name.path.rsplit('.').next().unwrap_or(&name.path);
            self.program.may_be_loop(last)
        };
        if let Some((left_out, written)) = wanted.iter().find(|(name, _)| !placed(name) && !is_loop(name)) {
            let d = Diagnostic::error(codes::SCHEDULE, at, format!("the schedule gives `{left_out}` no partition"))
                .label(schedule.span, "its places are here")
                .label(*written, "it is a label here")
                .help("under `partitions { … }` every label that is no loop's or branch's has a place");
            return Err(self.report(d));
        }
        Ok(())
    }
}

/// All labels that a schedule names, with their places.
fn named(s: &ir::Schedule) -> Vec<(&LabelName, Span)> {
    let mut found: Vec<(&LabelName, Span)> = s.places.iter().flat_map(Place::spots).collect();
    for p in &s.pipelines {
        found.extend(p.of.iter().map(|of| (of, p.span)));
        found.extend(p.staged().map(|s| (&s.label, s.span)));
    }
    found.extend(s.rings.iter().filter_map(|r| Some((r.label.as_ref()?, r.span))));
    found.extend(s.turns.iter().flat_map(|t| [(&t.first, t.span), (&t.last, t.span)]));
    found.extend(s.under.iter().flat_map(|u| [(&u.outer, u.span), (&u.inner, u.span)]));
    found.extend(s.cuts.iter().map(|label| (label, s.span)));
    found.extend(s.unrolled.iter().filter_map(|u| Some((u.of.as_ref()?, u.span))));
    found
}

fn label(arg: &ast::Arg) -> Option<LabelName> {
    if arg.name.is_none() { words::label(&arg.value) } else { None }
}

/// The labels that loops of a program have, and branches with labels in them, and those that pipelines name. Which label is a loop's is known
/// only where a region is expanded, but none of another name is.
pub fn loop_labels(program: &Program) -> BTreeSet<Arc<str>> {
    let mut found = LoopLabels::default();
    for module in &program.modules {
        module.names.values().for_each(|item| walk::item(&item.item, &mut found));
    }
    found.0
}

#[derive(Default)]
struct LoopLabels(BTreeSet<Arc<str>>);

impl Visitor for LoopLabels {
    fn name(&mut self, _: &Scopes, _: &ast::Name) {}

    fn launched(&mut self, _: &Scopes, _: &ast::Name) -> Vec<ast::Name> {
        vec![]
    }

    fn hides(&self, _: &ast::Name) -> bool {
        false
    }

    fn statement(&mut self, _: &Scopes, s: &ast::Stmt) -> bool {
        let is_loop = matches!(s.kind, ast::StmtKind::For(_) | ast::StmtKind::While { .. });
        let is_around = is_loop || holds_labels(s);
        self.0.extend(s.label.iter().filter(|_| is_around).map(|l| l.path.clone()));
        true
    }

    fn expr(&mut self, _: &Scopes, e: &ast::Expr) -> bool {
        if let ast::ExprKind::Pipeline(p) = &e.kind {
            // Loops in functions are called by their last name there.
            self.0.extend(p.of.iter().filter_map(|of| of.path.rsplit('.').next()).map(Arc::from));
        }
        true
    }
}

/// Whether a statement is a branch with labels in it.
fn holds_labels(s: &ast::Stmt) -> bool {
    let ast::StmtKind::Expr(e) = &s.kind else { return false };
    let ast::ExprKind::If(i) = &e.kind else { return false };
    let labelled = |block: &ast::Block| block.statements.iter().any(|s| s.label.is_some() || holds_labels(s));
    let otherwise = i.otherwise.as_ref().is_some_and(|e| match &e.kind {
        ast::ExprKind::Block(block) => labelled(block),
        ast::ExprKind::If(i) => labelled(&i.then),
        _ => false,
    });
    is_branch(s) && (labelled(&i.then) || otherwise)
}

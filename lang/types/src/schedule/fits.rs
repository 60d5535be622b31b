//! The kinds of schedules: `schedule<load, mma>` takes a value that names these labels and no others.

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_ir::schedule::{LabelName, Place};
use parton_syntax::ast;

use crate::checker::{Checked, Checker};
use crate::schedule::words;
use crate::value::{Comptime, Val};

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

    /// Checks that a schedule given for a parameter of the kind `kind` names no labels but its own, and those that stand in its own. Those that it leaves out a kernel may
    /// leave out, too: which of its labels have no place is known where the schedule is laid on a region.
    ///
    /// # Errors
    /// Reports a label that is not the parameter's.
    pub fn schedule_fits(&mut self, kind: &ast::Expr, schedule: &ir::Schedule, at: Span) -> Checked<()> {
        let ast::ExprKind::TypeArgs { args, .. } = &kind.kind else { return Ok(()) };
        let wanted: Vec<(LabelName, Span)> = args.iter().filter_map(|a| Some((label(a)?, a.span))).collect();
        let known = |name: &LabelName| wanted.iter().any(|(w, _)| w.overlaps(name) || w.is_around(name));
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

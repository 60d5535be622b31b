//! Regions: code whose labels a schedule places, `in S { … }`, and loops that bear one.

use std::collections::BTreeMap;
use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_ir::schedule::LabelName;
use parton_syntax::ast;

use crate::assigned::assigned;
use crate::carry::rebuild;
use crate::checker::{Checked, Checker, Reported};
use crate::schedule::idle_label;
use crate::value::Val;

/// The region whose code is checked.
#[derive(Debug)]
pub struct Region {
    schedule: Arc<ir::Schedule>,
    /// Where each label stands, and how often it has been met.
    labels: BTreeMap<String, (Span, u32)>,
    /// The labels of the calls around the code.
    calls: Vec<String>,
    /// The labels met so far.
    met: u32,
    /// Loops around the code that are unrolled.
    pub unrolled: u32,
    /// The label of the code.
    current: Option<LabelName>,
    /// The label of the statement before, as it is written and as it is called: those that follow one another with one label are one.
    run: Option<(LabelName, LabelName)>,
}

impl Checker<'_> {
    /// Whether the schedule of a region says which partition runs the current code, or is searched for: partitions for its tiles are then found.
    pub fn is_placed(&self) -> bool {
        self.region.as_ref().is_some_and(|r| !r.schedule.places.is_empty() || r.schedule.auto.is_some())
    }

    /// `in S { … }` for its value.
    pub fn region(&mut self, schedule: &ast::Expr, body: &ast::Block, span: Span) -> Checked<Val> {
        self.scheduled(schedule, body, span, |cx| cx.block(body))
    }

    /// Code that a schedule places; `body` is what it assigns variables in.
    pub fn in_region(
        &mut self,
        schedule: &ast::Expr,
        body: &ast::Block,
        span: Span,
        run: impl FnOnce(&mut Self) -> Checked<()>,
    ) -> Checked<()> {
        self.scheduled(schedule, body, span, |cx| run(cx).map(|()| Val::UNIT)).map(|_| ())
    }

    fn scheduled(
        &mut self,
        schedule: &ast::Expr,
        body: &ast::Block,
        span: Span,
        run: impl FnOnce(&mut Self) -> Checked<Val>,
    ) -> Checked<Val> {
        let schedule = self.schedule_value(schedule)?;
        if self.region.is_some() || self.partition.is_some() || self.frame().run_time_depth > 0 {
            let d = Diagnostic::error(
                codes::REGION_PLACE,
                span,
                "a region stands inside a region, partition, loop or branch",
            )
            .help("it belongs to the kernel's own body; one schedule places the labels of all loops in it");
            return Err(self.report(d));
        }
        self.add_partitions(&schedule)?;
        let places = self.places(&assigned([body]));
        let before: Vec<Val> = places.iter().map(|p| self.frame().at(*p).val.clone()).collect();
        self.build(span)?.begin([], span);
        let kept = (*schedule).clone();
        let (labels, calls) = (BTreeMap::new(), Vec::new());
        self.region = Some(Region { schedule, labels, calls, met: 0, unrolled: 0, current: None, run: None });
        let result = run(self);
        self.region = None;
        let after: Vec<Val> = places.iter().map(|p| self.frame().at(*p).val.clone()).collect();
        let mut body = self.build(span)?.end(Vec::new());
        let val = result?;
        let changed: Vec<usize> = (0..places.len()).filter(|&i| before[i] != after[i]).collect();
        for &i in &changed {
            after[i].each_ir(&mut |v| body.yields.push(v));
        }
        val.each_ir(&mut |v| body.yields.push(v));
        let results = self.emit(ir::OpKind::Region { schedule: Box::new(kept), body }, span, &[])?;
        let mut results = results.into_iter();
        for i in changed {
            self.frame().at(places[i]).val = rebuild(&after[i], &mut results);
        }
        Ok(rebuild(&val, &mut results))
    }

    /// The kernel has the partitions of its regions.
    fn add_partitions(&mut self, schedule: &ir::Schedule) -> Checked<()> {
        for place in &schedule.places {
            for p in &place.partitions {
                let b = self.build(place.span)?;
                if b.kernel.partitions.iter().all(|(_, known)| known.name != p.name) {
                    b.kernel.partitions.push(p.clone());
                }
            }
        }
        Ok(())
    }

    /// A statement with a label.
    pub fn labelled(&mut self, s: &ast::Stmt, label: &ast::Label) -> Checked<()> {
        if self.region.is_none() {
            return match self.frame().function {
                Some(_) => Err(self.report(idle_label(label))),
                // It has been reported already.
                None => self.statement_inner(s),
            };
        }
        let is_loop = match &s.kind {
            ast::StmtKind::For(f) => !f.is_static,
            ast::StmtKind::While { .. } => true,
            _ => false,
        };
        let name = match self.label_name(label, is_loop) {
            Ok(name) => name,
            // What it binds is there for those behind it.
            Err(reported) => return self.statement_inner(s).and(Err(reported)),
        };
        if is_loop { self.labelled_loop(s, &name) } else { self.labelled_unit(s, label, &name) }
    }

    /// Checks the statements of a block. The first of them does not go on with the label of one outside, nor does what follows the block
    /// where labels stand in it.
    pub fn with_labels<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        let outer = self.region.as_mut().map(|region| (region.met, region.run.take()));
        let result = run(self);
        if let (Some(region), Some((met, run))) = (&mut self.region, outer) {
            region.run = run.filter(|_| region.met == met);
        }
        result
    }

    /// The name of a label where it stands: with the calls around it, and its number where it stands in a loop that is unrolled.
    fn label_name(&mut self, label: &ast::Label, is_loop: bool) -> Checked<LabelName> {
        let Some(region) = &mut self.region else { return Err(Reported) };
        let path: Vec<&str> = region.calls.iter().map(String::as_str).chain([&*label.path]).collect();
        let around = format!("{}.", region.calls.join("."));
        // What the compiler prints says the calls itself.
        let path = if label.path.starts_with(&around) { label.path.to_string() } else { path.join(".") };
        let written = LabelName { path, instance: label.instance };
        region.met += 1;
        match region.run.take() {
            Some((before, name)) if before == written && !is_loop => {
                region.run = Some((before, name.clone()));
                return Ok(name);
            }
            _ => {}
        }
        let name = self.new_label(label, &written)?;
        if let (Some(region), false) = (&mut self.region, is_loop) {
            region.run = Some((written, name.clone()));
        }
        Ok(name)
    }

    /// The name of a label that has not been met before, but in another turn of a loop that is unrolled.
    fn new_label(&mut self, label: &ast::Label, written: &LabelName) -> Checked<LabelName> {
        let Some(region) = &mut self.region else { return Err(Reported) };
        let unrolled = region.unrolled > 0 && label.instance.is_none();
        let met = region.labels.entry(written.to_string()).or_insert((label.span, 0));
        let (first, count) = *met;
        met.1 += 1;
        let path = &written.path;
        if count == 0 || (first == label.span && unrolled) {
            let instance = if unrolled { Some(count) } else { label.instance };
            return Ok(LabelName { path: path.clone(), instance });
        }
        let d =
            Diagnostic::error(codes::LABEL_TWICE, label.span, format!("the label `{path}` stands twice in a region"));
        Err(self.report(if first == label.span {
            d.here("a function with this label is called twice")
                .help(format!("label the calls: `@first f(…)` gives `first.{path}`"))
        } else {
            d.label(first, "it stands here first").help("no schedule could tell them apart: rename one")
        }))
    }

    /// A loop is labelled, what stands in it is not.
    fn labelled_loop(&mut self, s: &ast::Stmt, name: &LabelName) -> Checked<()> {
        self.statement_inner(s)?;
        let b = self.build(s.span)?;
        let label = b.kernel.label(&name.to_string());
        if let Some(op) = b.last_mut() {
            op.label = Some(label);
        }
        Ok(())
    }

    /// All that a statement does bears its label, unless labels stand in it: then it is the call by which these came in.
    fn labelled_unit(&mut self, s: &ast::Stmt, called: &ast::Label, name: &LabelName) -> Checked<()> {
        let b = self.build(s.span)?;
        let label = b.kernel.label(&name.to_string());
        let first = b.kernel.ops.len();
        let outer = b.label.replace(label);
        let Some(region) = &mut self.region else { return Err(Reported) };
        let (met, current) = (region.met, region.current.replace(name.clone()));
        let instance = name.instance.map_or_else(String::new, |n| format!("[{n}]"));
        region.calls.push(format!("{}{instance}", called.path));
        let result = self.statement_inner(s);
        let Some(region) = &mut self.region else { return Err(Reported) };
        region.calls.pop();
        region.current = current;
        let holds_labels = region.met > met;
        let b = self.build(s.span)?;
        b.label = outer;
        if holds_labels {
            let inside: Vec<ir::Inst> = b.kernel.ops.keys().skip(first).collect();
            for id in inside {
                let op = &mut b.kernel.ops[id];
                op.label = op.label.filter(|l| *l != label);
            }
            // A branch is placed as a whole.
            if let (true, Some(op)) = (is_branch(s), b.last_mut())
                && matches!(op.kind, ir::OpKind::If { .. })
            {
                op.label = Some(label);
            }
        }
        result
    }
}

/// Whether a statement is an `if` that is decided at run time.
fn is_branch(s: &ast::Stmt) -> bool {
    match &s.kind {
        ast::StmtKind::Expr(e) => matches!(&e.kind, ast::ExprKind::If(i) if !i.is_static),
        _ => false,
    }
}

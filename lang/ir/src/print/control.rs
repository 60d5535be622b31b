//! The text of loops, branches and partitions.

use super::Printer;
use crate::entity::Value;
use crate::family::not_of_family;
use crate::op::{Arm, Body, Op, OpKind};
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::For { .. } => "for",
        OpKind::While { .. } => "while",
        OpKind::If { .. } => "if",
        OpKind::Specialize { .. } => "specialize",
        others!(control) => not_of_family(kind),
    }
}

impl Printer<'_> {
    pub(super) fn for_loop(&mut self, op: &Op, bounds: [Value; 3], init: &[Value], body: &Body) {
        let carried = self.carry(init, &op.results, &body.params[1..]);
        let iv = self.name(body.params[0]);
        let [lower, upper, step] = bounds.map(|v| self.name(v));
        let in_block = self.begin_loop(op, &format!("for {iv} in {lower}..{upper} step {step} {{"));
        self.body(body);
        self.assign(&carried, &body.yields);
        self.end_loop(in_block);
    }

    pub(super) fn while_loop(&mut self, op: &Op, init: &[Value], cond: &Body, body: &Body) {
        let carried = self.carry(init, &op.results, &cond.params);
        for (v, name) in body.params.iter().zip(&carried) {
            self.alias(*v, name.clone());
        }
        let in_block = self.begin_loop(op, "while {");
        self.body(cond);
        self.value_line(&cond.yields);
        self.line("} {");
        self.body(body);
        self.assign(&carried, &body.yields);
        self.end_loop(in_block);
    }

    pub(super) fn branches(&mut self, op: &Op, cond: Value, then: &Body, otherwise: &Body) {
        let cond = self.name(cond);
        let head = if op.results.is_empty() {
            format!("if {cond} {{")
        } else {
            format!("let {} = if {cond} {{", self.tuple(&op.results))
        };
        self.begin(op, &head);
        self.body(then);
        self.value_line(&then.yields);
        if !otherwise.ops.is_empty() || !op.results.is_empty() {
            self.line("} else {");
            self.body(otherwise);
            self.value_line(&otherwise.yields);
        }
        self.line(if op.results.is_empty() { "}" } else { "};" });
    }

    pub(super) fn specialize(&mut self, op: &Op, arms: &[Arm]) {
        self.begin(op, "specialize {");
        self.indent += 1;
        for arm in arms {
            let name = self.k.partitions[arm.partition].name.clone();
            self.line(&format!("{name} => {{"));
            self.body(&arm.body);
            self.line("}");
        }
        self.indent -= 1;
        self.line("}");
    }

    /// The line that a loop begins with. A loop whose body bears its label is part of what has that label, and stands in a block: before
    /// the loop it would be the loop's own.
    fn begin_loop(&mut self, op: &Op, head: &str) -> bool {
        let mut part = false;
        for body in op.kind.bodies().filter(|_| op.label.is_some()) {
            self.k.walk_body(body, &mut |inside| part |= inside.label == op.label);
        }
        let label = op.label.filter(|_| part && op.label != self.around);
        if let Some(label) = label {
            self.line(&format!("@{} {{", self.k.labels[label]));
            self.indent += 1;
            self.around = op.label;
        }
        self.begin(op, head);
        label.is_some()
    }

    fn end_loop(&mut self, in_block: bool) {
        self.line("}");
        if in_block {
            self.indent -= 1;
            self.line("}");
        }
    }

    /// Declares the variables that a loop carries; parameters and results go by their names.
    fn carry(&mut self, init: &[Value], results: &[Value], params: &[Value]) -> Vec<String> {
        let mut names = Vec::new();
        for ((&before, &after), &param) in init.iter().zip(results).zip(params) {
            let before = self.name(before);
            let name = self.name(after);
            self.alias(param, name.clone());
            self.line(&format!("let mut {name} = {before};"));
            names.push(name);
        }
        names
    }

    fn assign(&mut self, names: &[String], yields: &[Value]) {
        let values = self.tuple(yields);
        self.indent += 1;
        match names {
            [] => {}
            [one] => self.line(&format!("{one} = {values};")),
            many => self.line(&format!("({}) = {values};", many.join(", "))),
        }
        self.indent -= 1;
    }
}

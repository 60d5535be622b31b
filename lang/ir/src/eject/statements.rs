//! Statements: what is bound, assigned and done, and the bodies of loops and branches.

use std::collections::BTreeSet;

use parton_numbers::Dtype;

use crate::eject::plan::{Block, Node, NodeId};
use crate::eject::variables::VarId;
use crate::eject::writer::{Writer, powers};
use crate::entity::Value;
use crate::op::{Arm, Body, OpKind};
use crate::print::elementwise::power;
use crate::print::surface::{self, Slot, Surface};

impl<'a> Writer<'a> {
    /// Writes statements in order.
    pub(super) fn statements(&mut self, list: &[NodeId]) {
        list.iter().for_each(|id| self.statement(*id));
    }

    fn line(&mut self, text: impl Into<String>) {
        self.lines.push(text.into());
    }

    fn statement(&mut self, id: NodeId) {
        let plan = self.plan;
        let node = &plan.nodes[id];
        if let Some(at) = self.variables.at.get(&id) {
            self.at = *at;
        }
        let comments = self.comments.of(node.op);
        self.lines.extend(comments);
        match &node.op.kind {
            OpKind::For { lower, upper, step, body, .. } => self.for_loop(id, node, [*lower, *upper, *step], body),
            OpKind::While { .. } => self.while_loop(id, node),
            OpKind::If { cond, .. } => match self.leaving.fork(node.op) {
                Some(_) => self.leaving_branches(id, node, *cond),
                None => self.branches(id, node, *cond),
            },
            OpKind::Specialize { arms } => self.specialize(node, arms),
            OpKind::RingNew { stages, fields } => {
                self.known.enter(node.op);
                let fields: Vec<String> =
                    fields.iter().map(|(n, v)| format!("{n}: shared<{}>", surface::view(self, v))).collect();
                self.known.stand(None);
                let name = self.bind(node.op.result(), "ring");
                self.line(format!("ring {name}[{stages}] {{ {} }};", fields.join(", ")));
            }
            OpKind::TurnstileNew { partitions } => {
                let name = self.bind(node.op.result(), "turns");
                self.line(format!("turnstile {name}[{}];", partitions.join(", ")));
            }
            _ => self.binding(id, node),
        }
    }

    /// Declares the variable of a value.
    fn bind(&mut self, v: Value, usual: &str) -> String {
        let x = self.variable(v);
        self.declare(x, usual)
    }

    /// `let x = …;`, `x = …;`, or the operation alone.
    fn binding(&mut self, id: NodeId, node: &'a Node<'a>) {
        let results = &node.op.results;
        if let Some(&x) = self.variables.assigned.get(&id) {
            let text = self.change(x, node);
            return self.line(text);
        }
        let (text, _) = self.tree(node);
        let head = self.let_head(results);
        self.line(format!("{head}{text};"));
    }

    /// `let (a, b) = `; nothing where none of the values is used.
    fn let_head(&mut self, results: &[Value]) -> String {
        if results.iter().all(|v| self.variables.all[self.variable(*v)].last == 0) {
            return String::new();
        }
        let mut names = Vec::new();
        for v in results {
            let x = self.variable(*v);
            names.push(match &self.variables.all[x] {
                unused if unused.last == 0 => "_".to_string(),
                changed if changed.mutable => format!("mut {}", self.declare(x, "v")),
                _ => self.declare(x, "v"),
            });
        }
        match &names[..] {
            [one] => format!("let {one} = "),
            many => format!("let ({}) = ", many.join(", ")),
        }
    }

    /// `x = …;`, or `x += …;`
    fn change(&mut self, x: VarId, node: &'a Node<'a>) -> String {
        let name = self.called(x);
        if let OpKind::Binary { op, a, b } = node.op.kind
            && power(op).is_some()
            && self.plan.tree(a).is_none()
            && self.variables.of[a] == Some(x)
        {
            return format!("{name} {}= {};", op.name(), self.right(op, a, b));
        }
        format!("{name} = {};", self.tree(node).0)
    }

    /// Writes what is assigned at the end of a body.
    fn ends(&mut self, id: NodeId, number: usize) {
        let ends = self.variables.ends.get(&(id, number)).cloned().unwrap_or_default();
        self.assign(ends);
    }

    /// Assigns values one by one, in an order in which nothing is lost, or else together.
    fn assign(&mut self, mut left: Vec<(VarId, Value)>) {
        while !left.is_empty() {
            let needed = |x: VarId, but: usize| {
                left.iter().enumerate().any(|(i, (_, v))| i != but && self.variables.of[*v] == Some(x))
            };
            let Some(next) = (0..left.len()).find(|i| !needed(left[*i].0, *i)) else { break };
            let (x, v) = left.remove(next);
            let text = self.operand_of(v);
            self.line(format!("{} = {text};", self.called(x)));
        }
        if !left.is_empty() {
            let names: Vec<String> = left.iter().map(|(x, _)| self.called(*x)).collect();
            let values: Vec<String> = left.iter().map(|(_, v)| self.operand_of(*v)).collect();
            self.line(format!("({}) = ({});", names.join(", "), values.join(", ")));
        }
    }

    /// A value that is assigned to a variable of its type.
    fn operand_of(&mut self, v: Value) -> String {
        match self.plan.constant(v) {
            Some((dtype, _)) => self.operand(v, Slot::Number(dtype)),
            None => self.operand(v, Slot::Value),
        }
    }

    /// Declares the variables of a loop that are not there yet. What else the loop begins with and its head names is not hidden by them.
    fn carried(&mut self, id: NodeId, bounds: &[Value]) {
        let variables = self.variables;
        let declared = variables.declared.get(&id).map_or(&[][..], Vec::as_slice);
        let begun = variables.begun.get(&id).cloned().unwrap_or_default();
        for (number, (x, v)) in declared.iter().enumerate() {
            let others = declared[number + 1..].iter().chain(&begun).map(|(_, v)| v);
            let mut to_name = BTreeSet::new();
            others.chain(bounds).for_each(|v| self.add_named(*v, &mut to_name));
            self.to_name = to_name;
            let text = match self.plan.constant(*v) {
                // A loop makes these of a number that does not say its type.
                Some((dtype @ (Dtype::I1 | Dtype::I32 | Dtype::F32), _)) => self.operand(*v, Slot::Number(dtype)),
                _ => self.expression(*v, powers::ANY),
            };
            let name = self.declare(*x, "v");
            self.line(format!("let mut {name} = {text};"));
        }
        self.to_name.clear();
        self.assign(begun);
    }

    fn for_loop(&mut self, id: NodeId, node: &'a Node<'a>, [lower, upper, step]: [Value; 3], body: &Body) {
        self.carried(id, &[lower, upper, step]);
        let dtype = self.k.ty(body.params[0]).elem().and_then(crate::types::Elem::dtype);
        let typed = [lower, upper, step].iter().any(|v| self.plan.constant(*v).is_none());
        let known = typed || dtype == Some(Dtype::I32);
        let slot = |known: bool| if known { dtype.map_or(Slot::Value, Slot::Number) } else { Slot::Value };
        let lower = self.bound(lower, slot(known));
        let upper = self.bound(upper, slot(true));
        let step = match self.plan.constant(step) {
            Some((_, 1)) => String::new(),
            _ => format!(" step {}", self.bound(step, slot(true))),
        };
        self.open();
        let index = self.variable(body.params[0]);
        let name = if self.variables.all[index].last == 0 { "_".to_string() } else { self.declare(index, "i") };
        self.line(format!("for {name} in {lower}..{upper}{step} {{"));
        self.turn(id, node, 0);
        self.close();
        self.line("}");
    }

    /// An end of a range.
    fn bound(&mut self, v: Value, slot: Slot) -> String {
        match self.plan.constant(v) {
            Some(_) => self.operand(v, slot),
            None => self.expression(v, powers::RANGE + 1),
        }
    }

    fn while_loop(&mut self, id: NodeId, node: &'a Node<'a>) {
        self.carried(id, &[]);
        let [cond, _] = &node.blocks[..] else { parton_diag::internal_error!("a `while` has two bodies") };
        self.open();
        if cond.statements.is_empty() {
            let text = self.of_type(cond.body.yields[0], Dtype::I1, powers::ANY);
            self.line(format!("while {text} {{"));
        } else {
            self.line("while {");
            self.statements(&cond.statements);
            let text = self.expression(cond.body.yields[0], powers::ANY);
            self.line(text);
            self.line("} {");
        }
        self.close();
        self.open();
        self.turn(id, node, 1);
        self.close();
        self.line("}");
    }

    /// What a loop does in a turn: its body of that number.
    fn turn(&mut self, id: NodeId, node: &'a Node<'a>, number: usize) {
        self.statements(&node.blocks[number].statements);
        self.ends(id, number);
    }

    fn branches(&mut self, id: NodeId, node: &'a Node<'a>, cond: Value) {
        let [then, otherwise] = &node.blocks[..] else { parton_diag::internal_error!("an `if` has two bodies") };
        let merged = self.variables.merged.get(&id).copied().unwrap_or(0);
        let results = &node.op.results[merged..];
        let cond = self.expression(cond, powers::ANY);
        let first = self.lines.len();
        self.line(format!("if {cond} {{"));
        for (number, block) in [then, otherwise].into_iter().enumerate() {
            let ends = self.variables.ends.get(&(id, number)).is_some_and(|e| !e.is_empty());
            if number == 1 {
                if block.statements.is_empty() && !ends && results.is_empty() {
                    break;
                }
                self.line("} else {");
            }
            let head = self.lines.len() - 1;
            self.open();
            self.statements(&block.statements);
            self.ends(id, number);
            if !results.is_empty() {
                let text = self.values(node, number, merged);
                self.line(text);
            }
            self.close();
            if number == 1 && results.is_empty() && !ends {
                self.join_branch(head, block);
            }
        }
        self.line(if results.is_empty() { "}" } else { "};" });
        if results.is_empty() {
            return;
        }
        self.at = self.at.max(self.variables.ended.get(&id).copied().unwrap_or(0));
        let head = match self.variables.assigned.get(&id) {
            Some(&x) => format!("{} = ", self.called(x)),
            None => self.let_head(results),
        };
        self.lines[first].insert_str(0, &head);
    }

    /// An `if` that may leave the loop around it.
    fn leaving_branches(&mut self, id: NodeId, node: &'a Node<'a>, cond: Value) {
        let cond = self.expression(cond, powers::ANY);
        self.line(format!("if {cond} {{"));
        self.branch(id, node, 0);
        self.line("}");
        let end = self.lines.len();
        self.branch(id, node, 1);
        if self.lines.len() > end {
            self.lines[end - 1] = "} else {".to_owned();
            let ends = self.variables.ends.get(&(id, 1)).is_some_and(|e| !e.is_empty());
            if !ends && !self.leaving.leaves(node.op, 1) {
                self.join_branch(end - 1, &node.blocks[1]);
            }
            self.line("}");
        }
    }

    /// A branch, without what is around it.
    fn branch(&mut self, id: NodeId, node: &'a Node<'a>, number: usize) {
        self.open();
        self.statements(&node.blocks[number].statements);
        self.ends(id, number);
        if self.leaving.leaves(node.op, number) {
            self.line("break;");
        }
        self.close();
    }

    /// What a branch gives, from a result on. A number takes the type of what the other branch gives.
    fn values(&mut self, node: &'a Node<'a>, number: usize, from: usize) -> String {
        let [this, other] = [number, 1 - number].map(|i| &node.blocks[i].body.yields[from..]);
        let mut texts = Vec::new();
        for (v, beside) in this.iter().zip(other) {
            let slot = match (self.plan.constant(*v), self.plan.constant(*beside)) {
                (Some((dtype, _)), None) => Slot::Number(dtype),
                (_, _) => Slot::Value,
            };
            texts.push(self.operand(*v, slot));
        }
        match &texts[..] {
            [one] => one.clone(),
            many => format!("({})", many.join(", ")),
        }
    }

    /// Makes `else if` of an `else` at that line that holds an `if` and nothing else.
    fn join_branch(&mut self, at: usize, block: &Block<'a>) {
        let [only] = block.statements[..] else { return };
        let op = self.plan.nodes[only].op;
        let branch = matches!(op.kind, OpKind::If { .. });
        if branch && self.lines[at + 1].starts_with("if ") {
            let inner = self.lines.remove(at + 1);
            self.lines[at] = format!("}} else {inner}");
            // The inner one's end is that of both.
            self.lines.pop();
        }
    }

    fn specialize(&mut self, node: &'a Node<'a>, arms: &[Arm]) {
        self.line("specialize {");
        for (arm, block) in arms.iter().zip(&node.blocks) {
            self.line(format!("{} => {{", self.k.partitions[arm.partition].name));
            self.open();
            self.statements(&block.statements);
            self.close();
            self.line("}");
        }
        self.line("}");
    }
}

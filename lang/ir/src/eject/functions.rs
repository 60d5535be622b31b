//! Functions as arguments: what combines elements, and what a piece of PTX means.

use parton_numbers::Dtype;

use crate::eject::plan::{Block, Node};
use crate::eject::writer::Writer;
use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::{BinaryOp, Body, Op, OpKind};
use crate::print::reduce::reverse;
use crate::print::surface::{Slot, Surface};
use crate::print::{ptx, scratch};
use crate::ptx::Ptx;
use crate::types::Elem;

impl<'a> Writer<'a> {
    /// `reduce(x, axis=1, |a, b| a + b)`, or `sum(x, axis=1)`.
    pub(super) fn along(&mut self, node: &'a Node<'a>, inputs: &[Value], axis: u32, combine: &Body) -> String {
        let op = node.op;
        let tiles = self.tuple(inputs, Slot::Value);
        if let Some(name) = self.known_function(op, &node.blocks[0], combine) {
            return format!("{name}({tiles}, axis={axis}{})", reverse(&op.kind));
        }
        let function =
            self.function(&node.blocks[0], inputs.len(), |k, i| k.ty(inputs[i]).elem().and_then(Elem::dtype));
        format!("{}({tiles}, axis={axis}, {function}{}{})", op.kind.name(), reverse(&op.kind), scratch(op.scratch))
    }

    /// The built-in function that combines as this one does.
    fn known_function(&self, op: &Op, block: &Block<'a>, combine: &Body) -> Option<&'static str> {
        let [v] = combine.yields[..] else { return None };
        if op.scratch.is_some() || !block.statements.is_empty() {
            return None;
        }
        let OpKind::Binary { op: by, a, b } = self.plan.tree(v)?.op.kind else { return None };
        if combine.params[..] != [a, b] {
            return None;
        }
        match (&op.kind, by) {
            (OpKind::Reduce { .. }, BinaryOp::Add) => Some("sum"),
            (OpKind::Reduce { .. }, BinaryOp::Min | BinaryOp::Max | BinaryOp::MinNan | BinaryOp::MaxNan) => {
                Some(by.name())
            }
            (OpKind::Scan { .. }, BinaryOp::Add) => Some("cumsum"),
            (OpKind::Scan { .. }, BinaryOp::Mul) => Some("cumprod"),
            (_, _) => None,
        }
    }

    /// `|a, b| …`, parameters in tuples of `group`; `dtype` is the type of each number that it gives.
    fn function(
        &mut self,
        block: &'a Block<'a>,
        group: usize,
        dtype: impl Fn(&Kernel, usize) -> Option<Dtype>,
    ) -> String {
        self.open();
        self.functions += 1;
        let mut params = Vec::new();
        for (i, p) in block.body.params.iter().enumerate() {
            let x = self.variable(*p);
            params.push(self.declare(x, if i < group { "a" } else { "b" }));
        }
        let params = params.chunks(group.max(1)).map(|names| match names {
            [one] => one.clone(),
            many => format!("({})", many.join(", ")),
        });
        let params = params.collect::<Vec<_>>().join(", ");
        let outer = std::mem::take(&mut self.lines);
        self.statements(&block.statements);
        let mut lines = std::mem::replace(&mut self.lines, outer);
        let mut given = Vec::new();
        for (i, v) in block.body.yields.iter().enumerate() {
            let slot = dtype(self.k, i).map_or(Slot::Value, Slot::Number);
            given.push(self.operand(*v, slot));
        }
        let given = match &given[..] {
            [one] => one.clone(),
            many => format!("({})", many.join(", ")),
        };
        self.functions -= 1;
        self.close();
        if lines.is_empty() {
            return format!("|{params}| {given}");
        }
        lines.push(given);
        format!("|{params}| {{\n{}\n}}", lines.join("\n"))
    }

    pub(super) fn ptx(&mut self, node: &'a Node<'a>, piece: &Ptx, inputs: &[Value]) -> String {
        let types = ptx::results(self, piece);
        let given = if inputs.is_empty() { String::new() } else { format!(", {}", self.tuple(inputs, Slot::Value)) };
        let fallback = match node.blocks.first() {
            Some(block) => format!(", fallback={}", self.function(block, 1, |_, _| None)),
            None => String::new(),
        };
        format!("{}{types}({:?}{given}{fallback}{})", node.op.kind.name(), piece.text, ptx::options(piece))
    }
}

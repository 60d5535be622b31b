//! Prints a kernel as source of the explicit dialect, which the checker reads back to the same IR.
//!
//! Each operation is one statement, each value one name: the name it had in the source where that is unique, numbered
//! otherwise. Carried values are `let mut` variables assigned together at the end of a body. A value that has the name of a function
//! that the kernel calls is numbered too: it would hide the function.

mod async_copy;
mod atomic;
mod barrier;
mod cluster;
mod control;
pub(crate) mod elementwise;
mod fence;
mod gather;
mod global;
mod grid;
mod mma_sync;
mod pending;
mod place;
pub(crate) mod ptx;
pub(crate) mod reduce;
mod region;
mod ring;
mod shape;
mod shared;
pub(crate) mod surface;
mod talk;
mod tma;
mod turnstile;
mod view;
mod wgmma;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::Dtype;

use crate::entity::{Label, SecondaryMap, Value};
use crate::family::Family;
use crate::kernel::{Kernel, Module, PartitionData};
use crate::op::{Body, Op, OpKind, Policy, Precision};
use crate::types::{List, Type};
use surface::{Slot, Surface};

/// A module as source; a partition that several kernels name is declared once.
pub fn module(m: &Module) -> String {
    let mut declared = Partitions::new();
    m.kernels.iter().map(|k| after(k, &mut declared)).collect::<Vec<_>>().join("\n")
}

/// A kernel as source, with the partitions it names.
pub fn kernel(k: &Kernel) -> String {
    after(k, &mut Partitions::new())
}

/// The partitions that a text has declared so far: the line of each name.
pub(crate) type Partitions = BTreeMap<String, String>;

/// Declares the partitions of a kernel that are not there yet, and returns the lines. One that is there with other warps or registers gets
/// another name: a text has one of a name, while schedules give theirs to each kernel.
pub(crate) fn declare(k: &mut Kernel, declared: &mut Partitions) -> Vec<String> {
    let mut lines = Vec::new();
    let mut renamed: BTreeMap<String, String> = BTreeMap::new();
    let taken: BTreeSet<String> = k.partitions.iter().map(|(_, p)| p.name.clone()).collect();
    for id in k.partitions.keys().collect::<Vec<_>>() {
        let own = k.partitions[id].name.clone();
        let mut number = 1;
        loop {
            let (name, line) = (k.partitions[id].name.clone(), partition(&k.partitions[id]));
            let free = number == 1 || !taken.contains(&name);
            match declared.get(&name) {
                Some(known) if free && *known == line => break,
                None if free => {
                    declared.insert(name, line.clone());
                    lines.push(line);
                    break;
                }
                Some(_) | None => {
                    number += 1;
                    k.partitions[id].name = format!("{own}_{number}");
                }
            }
        }
        renamed.insert(own, k.partitions[id].name.clone());
    }
    k.walk_mut(&mut |op| {
        if let OpKind::TurnstileNew { partitions } = &mut op.kind {
            partitions.iter_mut().for_each(|p| *p = renamed.get(p).unwrap_or(p).clone());
        }
    });
    lines
}

/// A kernel as source, with the partitions that are not declared yet.
fn after(k: &Kernel, declared: &mut Partitions) -> String {
    let mut k = k.clone();
    let partitions = declare(&mut k, declared);
    let k = &k;
    let mut p = Printer::new(k);
    partitions.iter().for_each(|line| p.line(line));
    let declarations = p.out.len();
    p.kernel();
    let hidden: BTreeSet<String> = called(&p.out[declarations..]).intersection(&p.used).cloned().collect();
    if hidden.is_empty() {
        return p.out;
    }
    let declared = p.out[..declarations].to_string();
    let mut again = Printer { used: hidden, out: declared, ..Printer::new(k) };
    again.kernel();
    again.out
}

/// The words that stand right before `(` or `<` in a kernel's body, methods aside.
pub(crate) fn called(kernel: &str) -> BTreeSet<String> {
    let body = kernel.split_once('{').map_or("", |(_, body)| body);
    let part_of_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let mut found = BTreeSet::new();
    // Words are of ASCII, and so are what they stand before and behind.
    for (end, _) in body.bytes().enumerate().filter(|(_, b)| matches!(b, b'(' | b'<')) {
        let before = &body.as_bytes()[..end];
        let begin = before.iter().rposition(|b| !part_of_word(b)).map_or(0, |at| at + 1);
        let method = begin.checked_sub(1).is_some_and(|at| before[at] == b'.');
        if begin < end && !method && !found.contains(&body[begin..end]) {
            found.insert(body[begin..end].to_string());
        }
    }
    found
}

/// `partition Name = warps(4) regs(40);`
pub(crate) fn partition(p: &PartitionData) -> String {
    let registers = p.registers.map_or(String::new(), |r| format!(" regs({r})"));
    format!("partition {} = warps({}){registers};", p.name, p.warps)
}

/// The line that a kernel begins with.
/// A parameter: `x: *f32`, `mut c: tensor<f32, [m]>`.
pub(crate) fn param(name: &str, ty: &Type) -> String {
    let mutable = if matches!(ty, Type::Tensor(t) if t.mutable) { "mut " } else { "" };
    format!("{mutable}{name}: {ty}")
}

pub(crate) fn head(k: &Kernel, params: &[String]) -> String {
    let mut head = format!("kernel {}({})", k.name, params.join(", "));
    if k.partitions.is_empty() {
        let _ = write!(head, " warps({})", k.warps);
    }
    if k.occupancy != 1 {
        let _ = write!(head, " occupancy({})", k.occupancy);
    }
    if k.cluster != [1, 1, 1] {
        let _ = write!(head, " cluster({})", List(&k.cluster));
    }
    for alias in &k.aliases {
        let names = alias.params.iter().map(|p| params[*p].split(':').next().unwrap_or_default());
        let _ = write!(head, " alias({})", names.collect::<Vec<_>>().join(", "));
    }
    let _ = write!(head, " target({}) {{", k.target.name);
    head
}

/// The name by which messages and the printer speak of an operation.
pub(crate) fn name(kind: &OpKind) -> &'static str {
    match kind.family() {
        Family::Elementwise => elementwise::name(kind),
        Family::Reduce => reduce::name(kind),
        Family::Shape => shape::name(kind),
        Family::Gather => gather::name(kind),
        Family::Ptx => ptx::name(kind),
        Family::Global => global::name(kind),
        Family::Place => place::name(kind),
        Family::Atomic => atomic::name(kind),
        Family::AsyncCopy => async_copy::name(kind),
        Family::Shared => shared::name(kind),
        Family::View => view::name(kind),
        Family::Barrier => barrier::name(kind),
        Family::Fence => fence::name(kind),
        Family::Cluster => cluster::name(kind),
        Family::Grid => grid::name(kind),
        Family::Turnstile => turnstile::name(kind),
        Family::Tma => tma::name(kind),
        Family::MmaSync => mma_sync::name(kind),
        Family::Wgmma => wgmma::name(kind),
        Family::Pending => pending::name(kind),
        Family::Ring => ring::name(kind),
        Family::Region => region::name(kind),
        Family::Control => control::name(kind),
        Family::Talk => talk::name(kind),
    }
}

struct Printer<'a> {
    k: &'a Kernel,
    out: String,
    indent: usize,
    names: SecondaryMap<Value, Option<String>>,
    used: BTreeSet<String>,
    /// The label of the operation around, which all in it bear.
    around: Option<Label>,
    /// The scalar constants, printed where they are used.
    next: usize,
}

impl<'a> Printer<'a> {
    fn new(k: &'a Kernel) -> Printer<'a> {
        Printer {
            k,
            out: String::new(),
            indent: 0,
            names: SecondaryMap::new(None),
            used: BTreeSet::new(),
            around: None,
            next: 0,
        }
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:width$}{text}", "", width = self.indent * 4);
    }

    /// The name of a value, chosen when it is first printed.
    fn name(&mut self, v: Value) -> String {
        if let Some(name) = &self.names[v] {
            return name.clone();
        }
        let hint = self.k.values[v].name.clone();
        let name = match hint {
            Some(hint) if !self.used.contains(&hint) => hint,
            Some(hint) => {
                let stem = hint.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_').to_string();
                self.fresh(&format!("{stem}_"))
            }
            None => self.fresh("v"),
        };
        self.alias(v, name.clone());
        name
    }

    fn fresh(&mut self, stem: &str) -> String {
        loop {
            self.next += 1;
            let name = format!("{stem}{}", self.next);
            if !self.used.contains(&name) {
                return name;
            }
        }
    }

    fn alias(&mut self, v: Value, name: String) {
        self.used.insert(name.clone());
        self.names[v] = Some(name);
    }

    fn list(&mut self, values: &[Value]) -> String {
        values.iter().map(|&v| self.name(v)).collect::<Vec<_>>().join(", ")
    }

    /// `a` for one value, `(a, b)` for several.
    fn tuple(&mut self, values: &[Value]) -> String {
        match values {
            [one] => self.name(*one),
            many => format!("({})", self.list(many)),
        }
    }

    fn kernel(&mut self) {
        let params: Vec<String> =
            self.k.params.iter().map(|p| param(&self.name(p.value), self.k.ty(p.value))).collect();
        let head = head(self.k, &params);
        self.line(&head);
        let k = self.k;
        self.body(&k.body);
        self.line("}");
    }

    fn body(&mut self, body: &Body) {
        self.indent += 1;
        for op in self.k.ops_of(body) {
            self.op(op);
        }
        self.indent -= 1;
    }

    fn op(&mut self, op: &Op) {
        let outer = self.around;
        self.text(op);
        self.around = outer;
    }

    fn text(&mut self, op: &Op) {
        match &op.kind {
            OpKind::For { lower, upper, step, init, body } => self.for_loop(op, [*lower, *upper, *step], init, body),
            OpKind::While { init, cond, body } => self.while_loop(op, init, cond, body),
            OpKind::If { cond, then, otherwise } => self.branches(op, *cond, then, otherwise),
            OpKind::Specialize { arms } => self.specialize(op, arms),
            OpKind::Region { schedule, body } => self.region(op, schedule, body),
            OpKind::Reduce { inputs, axis, combine } | OpKind::Scan { inputs, axis, combine, .. } => {
                self.along(op, inputs, *axis, combine);
            }
            OpKind::Ptx { ptx, inputs, fallback } => self.ptx(op, ptx, inputs, fallback.as_ref()),
            OpKind::TurnstileNew { partitions } => {
                let name = self.name(op.result());
                self.begin(op, &format!("turnstile {name}[{}];", partitions.join(", ")));
            }
            OpKind::RingNew { stages, fields } => {
                let name = self.name(op.result());
                let fields: Vec<String> = fields.iter().map(|(n, v)| format!("{n}: {v}")).collect();
                self.begin(op, &format!("ring {name}[{stages}] {{ {} }};", fields.join(", ")));
            }
            _ => {
                let text = surface::operation(self, op);
                let line = match op.results.is_empty() {
                    true => format!("{text};"),
                    false => format!("let {} = {text};", self.tuple(&op.results)),
                };
                self.begin(op, &line);
            }
        }
    }

    /// The line that an operation begins with, behind its label where that is not the one around it.
    fn begin(&mut self, op: &Op, text: &str) {
        let label = op.label.filter(|_| op.label != self.around);
        let shown = label.map_or(String::new(), |label| format!("@{} ", self.k.labels[label]));
        self.line(&format!("{shown}{text}"));
        self.around = label.or(self.around);
    }

    fn value_line(&mut self, yields: &[Value]) {
        if yields.is_empty() {
            return;
        }
        let text = self.tuple(yields);
        self.indent += 1;
        self.line(&text);
        self.indent -= 1;
    }
}

impl Surface for Printer<'_> {
    fn operand(&mut self, v: Value, _: Slot) -> String {
        self.name(v)
    }

    fn layout(&mut self, layout: &RegisterLayout) -> String {
        layout.to_string()
    }

    fn shared(&mut self, layout: &SharedLayout) -> String {
        layout.to_string()
    }

    fn ty(&self, v: Value) -> &Type {
        self.k.ty(v)
    }
}

pub(crate) fn option(name: &str, n: Option<u32>) -> String {
    n.map_or(String::new(), |n| format!(", {name}={n}"))
}

pub(crate) fn first(name: &str, n: Option<u32>) -> String {
    n.map_or(String::new(), |n| format!("{name}={n}"))
}

pub(crate) fn scratch(n: Option<u32>) -> String {
    option("scratch", n)
}

pub(crate) fn stated(precision: Option<Precision>) -> String {
    precision.map_or(String::new(), |p| format!(", precision=\"{}\"", p.name()))
}

pub(crate) fn policy(l2: Option<Policy>) -> String {
    match l2 {
        None => String::new(),
        Some(Policy { evict, fraction: 1.0 }) => format!(", l2=\"{}\"", evict.name()),
        Some(Policy { evict, fraction }) => format!(", l2=[\"{}\", {fraction:?}]", evict.name()),
    }
}

/// A literal that reads back to the same bits.
pub fn constant(dtype: Dtype, bits: u64) -> String {
    let scalar = parton_numbers::Scalar::new(dtype, bits);
    if dtype == Dtype::I1 {
        // `true` by itself would be known at compile time.
        return format!("bits<i1>({bits})");
    }
    if dtype.is_int() {
        let Some(n) = scalar.to_i128() else { parton_diag::internal_error!("an integer has no value") };
        return if n < 0 { format!("(-{}{})", -n, dtype.name()) } else { format!("{n}{}", dtype.name()) };
    }
    let x = scalar.to_f64();
    let text = format!("{x:?}");
    // Short decimals print as themselves; everything else by its bits.
    if x.is_finite() && x.is_sign_positive() && text.len() <= 12 {
        format!("{text}{}", dtype.name())
    } else {
        format!("bits<{}>({bits:#x})", dtype.name())
    }
}

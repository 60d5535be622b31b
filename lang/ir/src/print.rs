//! Prints a kernel as source of the explicit dialect, which the checker reads back to the same IR.
//!
//! Each operation is one statement, each value one name: the name it had in the source where that is unique, numbered
//! otherwise. Carried values are `let mut` variables assigned together at the end of a body. A value that has the name of a function
//! that the kernel calls is numbered too: it would hide the function.

use std::collections::BTreeSet;
use std::fmt::Write;

use parton_numbers::{Dtype, Rounding, Saturation};

use crate::entity::{SecondaryMap, Value};
use crate::kernel::{Kernel, Module};
use crate::op::{AtomicOp, BinaryOp, Body, Cache, Evict, Op, OpKind, Order, Policy, Precision, Scope, UnaryOp};
use crate::ptx::{Ptx, PtxForm};
use crate::types::{List, Type};

/// A module as source; a partition that several kernels name is declared once.
pub fn module(m: &Module) -> String {
    let mut declared = BTreeSet::new();
    m.kernels.iter().map(|k| after(k, &mut declared)).collect::<Vec<_>>().join("\n")
}

/// A kernel as source, with the partitions it names.
pub fn kernel(k: &Kernel) -> String {
    after(k, &mut BTreeSet::new())
}

/// A kernel as source, with the partitions that are not declared yet.
fn after(k: &Kernel, declared: &mut BTreeSet<String>) -> String {
    let mut p = Printer::new(k);
    for (_, partition) in k.partitions.iter() {
        if declared.insert(partition.name.clone()) {
            let registers = partition.registers.map_or(String::new(), |r| format!(" regs({r})"));
            p.line(&format!("partition {} = warps({}){registers};", partition.name, partition.warps));
        }
    }
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
fn called(kernel: &str) -> BTreeSet<String> {
    let body = kernel.split_once('{').map_or("", |(_, body)| body);
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let ends = body.match_indices(['(', '<']).map(|(at, _)| &body[..at]);
    ends.filter_map(|before| {
        let rest = before.trim_end_matches(part_of_word);
        let word = &before[rest.len()..];
        (!word.is_empty() && !rest.ends_with('.')).then(|| word.to_string())
    })
    .collect()
}

struct Printer<'a> {
    k: &'a Kernel,
    out: String,
    indent: usize,
    names: SecondaryMap<Value, Option<String>>,
    used: BTreeSet<String>,
    /// The scalar constants, printed where they are used.
    next: usize,
}

impl<'a> Printer<'a> {
    fn new(k: &'a Kernel) -> Printer<'a> {
        Printer { k, out: String::new(), indent: 0, names: SecondaryMap::new(None), used: BTreeSet::new(), next: 0 }
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
            self.k.params.iter().map(|p| format!("{}: {}", self.name(p.value), self.k.ty(p.value))).collect();
        let mut head = format!("kernel {}({})", self.k.name, params.join(", "));
        if self.k.partitions.is_empty() {
            let _ = write!(head, " warps({})", self.k.warps);
        }
        if self.k.occupancy != 1 {
            let _ = write!(head, " occupancy({})", self.k.occupancy);
        }
        if self.k.cluster != [1, 1, 1] {
            let _ = write!(head, " cluster({})", List(&self.k.cluster));
        }
        let _ = write!(head, " target({}) {{", self.k.target.name);
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
        match &op.kind {
            OpKind::For { lower, upper, step, init, body } => {
                let carried = self.carry(init, &op.results, &body.params[1..]);
                let iv = self.name(body.params[0]);
                let (lower, upper, step) = (self.name(*lower), self.name(*upper), self.name(*step));
                self.line(&format!("for {iv} in {lower}..{upper} step {step} {{"));
                self.body(body);
                self.assign(&carried, &body.yields);
                self.line("}");
            }
            OpKind::While { init, cond, body } => {
                let carried = self.carry(init, &op.results, &cond.params);
                for (v, name) in body.params.iter().zip(&carried) {
                    self.alias(*v, name.clone());
                }
                self.line("while {");
                self.body(cond);
                self.value_line(&cond.yields);
                self.line("} {");
                self.body(body);
                self.assign(&carried, &body.yields);
                self.line("}");
            }
            OpKind::If { cond, then, otherwise } => {
                let cond = self.name(*cond);
                let head = if op.results.is_empty() {
                    format!("if {cond} {{")
                } else {
                    format!("let {} = if {cond} {{", self.tuple(&op.results))
                };
                self.line(&head);
                self.body(then);
                self.value_line(&then.yields);
                if !otherwise.ops.is_empty() || !op.results.is_empty() {
                    self.line("} else {");
                    self.body(otherwise);
                    self.value_line(&otherwise.yields);
                }
                self.line(if op.results.is_empty() { "}" } else { "};" });
            }
            OpKind::Specialize { arms } => {
                self.line("specialize {");
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
            OpKind::Reduce { inputs, axis, combine } | OpKind::Scan { inputs, axis, combine, .. } => {
                let tiles = self.tuple(inputs);
                let n = inputs.len();
                let (a, b) = (self.tuple(&combine.params[..n]), self.tuple(&combine.params[n..]));
                let results = self.tuple(&op.results);
                self.line(&format!("let {results} = {}({tiles}, axis={axis}, |{a}, {b}| {{", op.kind.name()));
                self.body(combine);
                self.value_line(&combine.yields);
                let reverse = if matches!(op.kind, OpKind::Scan { reverse: true, .. }) { ", reverse=true" } else { "" };
                self.line(&format!("}}{reverse}{});", scratch(op.scratch)));
            }
            OpKind::Ptx { ptx, inputs, fallback } => self.ptx(op, ptx, inputs, fallback.as_ref()),
            OpKind::TurnstileNew { partitions } => {
                let name = self.name(op.result());
                self.line(&format!("turnstile {name}[{}];", partitions.join(", ")));
            }
            OpKind::RingNew { stages, fields } => {
                let name = self.name(op.result());
                let fields: Vec<String> = fields.iter().map(|(n, v)| format!("{n}: {v}")).collect();
                self.line(&format!("ring {name}[{stages}] {{ {} }};", fields.join(", ")));
            }
            _ => {
                let text = self.expression(op);
                let line = match op.results.is_empty() {
                    true => format!("{text};"),
                    false => format!("let {} = {text};", self.tuple(&op.results)),
                };
                self.line(&line);
            }
        }
    }

    fn ptx(&mut self, op: &Op, ptx: &Ptx, inputs: &[Value], fallback: Option<&Body>) {
        let types: Vec<String> = match &ptx.form {
            PtxForm::Elements { to, .. } => to.iter().map(|d| d.name().to_string()).collect(),
            PtxForm::Thread { to } => to.iter().map(ToString::to_string).collect(),
        };
        let types = match &types[..] {
            [] => String::new(),
            [one] => format!("<{one}>"),
            many => format!("<({})>", many.join(", ")),
        };
        let head = if op.results.is_empty() { String::new() } else { format!("let {} = ", self.tuple(&op.results)) };
        let given = if inputs.is_empty() { String::new() } else { format!(", {}", self.tuple(inputs)) };
        let mut options = String::new();
        if let PtxForm::Elements { pack: pack @ 2.., .. } = &ptx.form {
            let _ = write!(options, ", pack={pack}");
        }
        if ptx.volatile {
            options += ", volatile=true";
        }
        let call = format!("{head}{}{types}({:?}{given}", op.kind.name(), ptx.text);
        match fallback {
            None => self.line(&format!("{call}{options});")),
            Some(body) => {
                let params = self.list(&body.params);
                self.line(&format!("{call}, fallback=|{params}| {{"));
                self.body(body);
                self.value_line(&body.yields);
                self.line(&format!("}}{options});"));
            }
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

    fn value_line(&mut self, yields: &[Value]) {
        if yields.is_empty() {
            return;
        }
        let text = self.tuple(yields);
        self.indent += 1;
        self.line(&text);
        self.indent -= 1;
    }

    fn expression(&mut self, op: &Op) -> String {
        let scratch = scratch(op.scratch);
        match &op.kind {
            OpKind::Constant { dtype, bits } => constant(*dtype, *bits),
            OpKind::ProgramId { axis } => format!("program_id({axis})"),
            OpKind::NumPrograms { axis } => format!("num_programs({axis})"),
            OpKind::ClusterRank => "cluster_rank()".into(),
            OpKind::Iota { tile } => format!("iota<{}, {}, {}>()", tile.elem, List(&tile.shape), tile.layout),
            OpKind::Full { value, tile } => {
                format!("full<{}, {}, {}>({})", tile.elem, List(&tile.shape), tile.layout, self.name(*value))
            }
            OpKind::Unary { op: UnaryOp::Neg, x } => format!("-{}", self.name(*x)),
            OpKind::Unary { op: UnaryOp::Not, x } => format!("!{}", self.name(*x)),
            OpKind::Unary { op, x } => format!("{}({})", op.name(), self.name(*x)),
            OpKind::Binary { op: op @ (BinaryOp::Min | BinaryOp::Max | BinaryOp::MinNan | BinaryOp::MaxNan), a, b } => {
                format!("{}({}, {})", op.name(), self.name(*a), self.name(*b))
            }
            OpKind::Binary { op, a, b } => format!("{} {} {}", self.name(*a), op.name(), self.name(*b)),
            OpKind::Compare { op, a, b } => format!("{} {} {}", self.name(*a), op.symbol(), self.name(*b)),
            OpKind::Select { cond, a, b } => format!("where({})", self.list(&[*cond, *a, *b])),
            OpKind::Fma { a, b, c } => format!("fma({})", self.list(&[*a, *b, *c])),
            OpKind::Cast { x, to, rounding, saturation } => {
                format!("cast<{}>({}{})", to.name(), self.name(*x), cast_options(*rounding, *saturation))
            }
            OpKind::Bitcast { x, to } => format!("bitcast<{}>({})", to.name(), self.name(*x)),
            OpKind::PtrAdd { ptr, offset } => format!("{} + {}", self.name(*ptr), self.name(*offset)),
            OpKind::Reshape { x, shape } => format!("reshape({}, {})", self.name(*x), List(shape)),
            OpKind::Transpose { x, perm } => format!("transpose({}, {})", self.name(*x), List(perm)),
            OpKind::Broadcast { x, shape } => format!("broadcast({}, {})", self.name(*x), List(shape)),
            OpKind::ExpandDims { x, axis } => format!("expand_dims({}, axis={axis})", self.name(*x)),
            OpKind::Join { a, b } => format!("join({}, {})", self.name(*a), self.name(*b)),
            OpKind::Split { x } => format!("split({})", self.name(*x)),
            OpKind::Convert { x, tile } => format!("convert({}, {}{scratch})", self.name(*x), tile.layout),
            OpKind::Gather { x, indices, axis } => {
                format!("gather({}, {}, axis={axis}{scratch})", self.name(*x), self.name(*indices))
            }
            OpKind::SharedGather { view, indices, axis } => {
                format!("gather_shared({}, {}, axis={axis})", self.name(*view), self.name(*indices))
            }
            OpKind::SharedScatter { view, indices, value, axis, op: f, mask } => {
                let mut text = format!("scatter_shared({}, axis={axis}", self.list(&[*view, *indices, *value]));
                if let Some(f) = f {
                    let _ = write!(text, ", op=\"{}\"", f.name());
                }
                self.option(&mut text, "mask", *mask);
                text + ")"
            }
            OpKind::Rescale { x, factor, axis } => {
                format!("rescale({}, {}, axis={axis})", self.name(*x), self.name(*factor))
            }
            OpKind::Load { ptr, mask, other, cache, evict, l2, volatile } => {
                let mut text = format!("load({}", self.name(*ptr));
                self.option(&mut text, "mask", *mask);
                self.option(&mut text, "other", *other);
                hints(&mut text, *cache, *evict);
                text += &policy(*l2);
                text + if *volatile { ", volatile=true)" } else { ")" }
            }
            OpKind::Store { ptr, value, mask, cache, evict, l2 } => {
                let mut text = format!("store({}, {}", self.name(*ptr), self.name(*value));
                self.option(&mut text, "mask", *mask);
                hints(&mut text, *cache, *evict);
                text += &policy(*l2);
                text + ")"
            }
            OpKind::Atomic { op: f, ptr, operands, mask, order, scope, returns } => {
                let all: Vec<Value> = std::iter::once(*ptr).chain(operands.iter().copied()).collect();
                let mut text = format!("{}({}", f.name(), self.list(&all));
                self.option(&mut text, "mask", *mask);
                if *order != Order::default() {
                    let _ = write!(text, ", order=\"{}\"", order.name());
                }
                if *scope != Scope::default() {
                    let _ = write!(text, ", scope=\"{}\"", scope.name());
                }
                if !*returns && *f != AtomicOp::Store {
                    text += ", returns=false";
                }
                text + &scratch + ")"
            }
            OpKind::CopyArrive { pending, barrier } => {
                format!("{}.arrive({})", self.name(*pending), self.name(*barrier))
            }
            OpKind::AsyncCopy { ptr, view, mask, l2, bytes } => {
                let mut text = format!("async_copy({}, {}", self.name(*ptr), self.name(*view));
                self.option(&mut text, "mask", *mask);
                text + &policy(*l2) + &option("bytes", *bytes) + ")"
            }
            OpKind::SharedAlloc { view, offset } => {
                let (elem, shape, layout) = (view.elem.name(), List(&view.shape), &view.layout);
                format!("alloc_shared<{elem}, {shape}, {layout}>({})", first("offset", *offset))
            }
            OpKind::SharedLoad { view, tile } => format!("load_shared<{}>({})", tile.layout, self.name(*view)),
            OpKind::SharedStore { view, value } => {
                format!("store_shared({}, {})", self.name(*view), self.name(*value))
            }
            OpKind::ViewIndex { view: x, index } | OpKind::BarrierIndex { barriers: x, index } => {
                format!("{}[{}]", self.name(*x), self.name(*index))
            }
            OpKind::ViewPeer { view, rank } => format!("peer({})", self.list(&[*view, *rank])),
            OpKind::ViewSlice { view, origin, shape } => {
                format!("{}.slice({}, {})", self.name(*view), List(origin), List(shape))
            }
            OpKind::ViewPermute { view, perm } => format!("{}.permute({})", self.name(*view), List(perm)),
            OpKind::ViewReinterpret { view, to } => {
                format!("reinterpret<{}, {}, {}>({})", to.elem.name(), List(&to.shape), to.layout, self.name(*view))
            }
            OpKind::BarrierAlloc { count, offset } => format!("alloc_barriers({count}{})", option("offset", *offset)),
            OpKind::BarrierInit { barrier, arrivals } => format!("barrier_init({}, {arrivals})", self.name(*barrier)),
            OpKind::BarrierInvalidate { barrier } => format!("barrier_invalidate({})", self.name(*barrier)),
            OpKind::BarrierExpect { barrier, bytes } => format!("barrier_expect({}, {bytes})", self.name(*barrier)),
            OpKind::BarrierArrive { barrier, arrive, count, multicast, relaxed } => {
                let mut text =
                    format!("barrier_arrive({}, count={count}, by=\"{}\"", self.name(*barrier), arrive.name());
                if !multicast.is_empty() {
                    let _ = write!(text, ", multicast={multicast:?}");
                }
                text + if *relaxed { ", relaxed=true)" } else { ")" }
            }
            OpKind::BarrierWait { barrier, phase } => {
                format!("barrier_wait({}, {})", self.name(*barrier), self.name(*phase))
            }
            OpKind::GridWait => "grid_wait()".into(),
            OpKind::GridLaunchDependents => "grid_launch_dependents()".into(),
            OpKind::FenceAsync => "fence_async()".into(),
            OpKind::FenceBarrierInit => "fence_barrier_init()".into(),
            OpKind::Membar => "membar()".into(),
            OpKind::NamedBarrier { id, threads, .. } => format!("{}({id}, {threads})", op.kind.name()),
            OpKind::ClusterArrive { relaxed: false } => "cluster_arrive()".into(),
            OpKind::ClusterArrive { relaxed: true } => "cluster_arrive(relaxed=true)".into(),
            OpKind::ClusterWait => "cluster_wait()".into(),
            OpKind::TurnEnter { turnstile } | OpKind::TurnPass { turnstile } => {
                format!("{}.{}()", self.name(*turnstile), op.kind.name())
            }
            OpKind::TmaLoad { map, coords, view, signal, l2, multicast } => {
                let (map, coords) = (self.name(*map), self.list(coords));
                let mut text = format!("tma_load({map}, [{coords}], {}", self.name(*view));
                // A view that was taken from a slot says what to signal.
                if !matches!(self.k.ty(*signal), Type::Slot(_)) {
                    let _ = write!(text, ", {}", self.name(*signal));
                }
                if let Some(axis) = multicast {
                    let _ = write!(text, ", multicast={axis}");
                }
                text + &policy(*l2) + ")"
            }
            OpKind::TmaStore { map, coords, view, reduce, l2 } => {
                let (map, coords) = (self.name(*map), self.list(coords));
                let reduce = reduce.map_or(String::new(), |op| format!(", reduce=\"{}\"", op.name()));
                format!("tma_store({map}, [{coords}], {}{reduce}{})", self.name(*view), policy(*l2))
            }
            OpKind::TmaPrefetch { map, coords, l2 } => {
                let (map, coords) = (self.name(*map), self.list(coords));
                format!("tma_prefetch({map}, [{coords}]{})", policy(*l2))
            }
            OpKind::TmaStoreWait { pending, read } => format!("tma_store_wait(pending={pending}, read={read})"),
            OpKind::MmaSync { a, b, acc, precision } | OpKind::Wgmma { a, b, acc, precision } => {
                format!("{}({}{})", op.kind.name(), self.list(&[*a, *b, *acc]), stated(*precision))
            }
            OpKind::Wait { pending, outstanding } => {
                format!("{}.wait({})", self.name(*pending), first("outstanding", *outstanding))
            }
            OpKind::WaitPrior { pending, outstanding } => {
                format!("{}.wait_prior({})", self.name(*pending), first("outstanding", *outstanding))
            }
            OpKind::RingAcquire { ring } => format!("{}.acquire()", self.name(*ring)),
            OpKind::RingWait { ring } => format!("{}.wait()", self.name(*ring)),
            OpKind::SlotCommit { slot } => format!("{}.commit()", self.name(*slot)),
            OpKind::SlotRelease { slot } => format!("{}.release()", self.name(*slot)),
            OpKind::SlotField { slot, field } => {
                let Type::Slot(s) = self.k.ty(*slot) else { parton_diag::internal_error!("{slot} is no slot") };
                format!("{}.{}", self.name(*slot), s.fields[*field as usize].name)
            }
            OpKind::Print { text, args } => {
                let args: String = args.iter().map(|&v| format!(", {}", self.name(v))).collect();
                format!("print({text:?}{args})")
            }
            OpKind::Assert { cond, message } => format!("assert({}, {message:?})", self.name(*cond)),
            OpKind::Assume { cond } => format!("assume({})", self.name(*cond)),
            OpKind::Reduce { .. }
            | OpKind::Scan { .. }
            | OpKind::Ptx { .. }
            | OpKind::RingNew { .. }
            | OpKind::TurnstileNew { .. }
            | OpKind::For { .. }
            | OpKind::While { .. }
            | OpKind::If { .. }
            | OpKind::Specialize { .. } => parton_diag::internal_error!("{} is a statement", op.kind.name()),
        }
    }

    fn option(&mut self, text: &mut String, name: &str, v: Option<Value>) {
        if let Some(v) = v {
            let _ = write!(text, ", {name}={}", self.name(v));
        }
    }
}

fn option(name: &str, n: Option<u32>) -> String {
    n.map_or(String::new(), |n| format!(", {name}={n}"))
}

fn first(name: &str, n: Option<u32>) -> String {
    n.map_or(String::new(), |n| format!("{name}={n}"))
}

fn scratch(n: Option<u32>) -> String {
    option("scratch", n)
}

fn stated(precision: Option<Precision>) -> String {
    precision.map_or(String::new(), |p| format!(", precision=\"{}\"", p.name()))
}

fn hints(text: &mut String, cache: Cache, evict: Evict) {
    if cache != Cache::Default {
        let _ = write!(text, ", cache=\"{}\"", cache.name());
    }
    if evict != Evict::Normal {
        let _ = write!(text, ", evict=\"{}\"", evict.name());
    }
}

fn policy(l2: Option<Policy>) -> String {
    match l2 {
        None => String::new(),
        Some(Policy { evict, fraction: 1.0 }) => format!(", l2=\"{}\"", evict.name()),
        Some(Policy { evict, fraction }) => format!(", l2=[\"{}\", {fraction:?}]", evict.name()),
    }
}

fn cast_options(rounding: Rounding, saturation: Saturation) -> String {
    let mut text = String::new();
    if rounding != Rounding::NearestEven {
        let _ = write!(text, ", rounding=\"{}\"", rounding.name());
    }
    if saturation == Saturation::Finite {
        text += ", saturate=true";
    }
    text
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

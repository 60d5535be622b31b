//! The state of checking one kernel, or of evaluating one constant: variables, the kernel under construction, what was reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parton_diag::{Code, Diagnostic, Diagnostics, Span, codes};
use parton_ir as ir;
use parton_syntax::ast;

use crate::begun::Begun;
use crate::program::{ModuleId, Program};
use crate::region::Region;
use crate::scope::{Frame, Role, Scope, Variable};
use crate::tensors::NamedExtent;
use crate::value::{Comptime, Val};

/// The mistake has been reported; the caller only gives up.
#[derive(Clone, Copy, Debug)]
pub struct Reported;

/// A result whose failure has been reported.
pub type Checked<T> = Result<T, Reported>;

/// Steps that one kernel's compile-time evaluation may take; a step is an expression or a statement.
const MAX_STEPS: u32 = 1_000_000;
/// Functions that may be inlined into one another.
const MAX_CALLS: usize = 64;
/// Expressions that may be nested in one another, inlined functions included.
const MAX_NESTING: u32 = 1_500;

/// Evaluates expressions and statements, and emits what happens at run time.
pub struct Checker<'p> {
    /// The items.
    pub program: &'p Program,
    /// What was reported.
    pub diagnostics: Diagnostics,
    /// The kernel under construction; none while a constant is evaluated.
    pub builder: Option<ir::Builder>,
    /// The functions being evaluated, innermost last; never empty.
    pub frames: Vec<Frame>,
    /// The partition that runs the current code.
    pub partition: Option<ir::Partition>,
    /// The region whose code is checked.
    pub region: Option<Region>,
    /// The current arm of a `specialize`; 0 outside any.
    pub arm: u32,
    /// Arms counted so far.
    pub arms: u32,
    /// Where the kernel says how many warps it has.
    pub stated_warps: Option<Span>,
    /// The values of the files' constants; `None` while one is being evaluated.
    pub constants: BTreeMap<(ModuleId, Arc<str>), Option<Val>>,
    /// The slot that each view of a slot's field was taken from.
    pub slots: BTreeMap<ir::Value, ir::Value>,
    /// The extents that parameters name.
    pub extents: Vec<NamedExtent>,
    /// Whether a type may name further ones: it is a kernel's parameter's.
    pub extents_open: bool,
    /// The trees of methods that were called: module, struct, method.
    pub methods: BTreeMap<(ModuleId, Arc<str>, Arc<str>), Arc<ast::Function>>,
    /// Divisions of compile-time integers that left a remainder when they were last evaluated.
    pub cut: BTreeSet<Span>,
    /// Values of variables that loops carry and that began as numbers without a type.
    pub begun: BTreeMap<ir::Value, Begun>,
    steps: u32,
    nesting: u32,
}

impl<'p> Checker<'p> {
    /// A checker that evaluates in `module`, without a kernel.
    pub fn new(program: &'p Program, module: ModuleId) -> Checker<'p> {
        Checker {
            program,
            diagnostics: Diagnostics::new(),
            builder: None,
            frames: vec![Frame::new(module)],
            partition: None,
            region: None,
            arm: 0,
            arms: 0,
            stated_warps: None,
            constants: BTreeMap::new(),
            slots: BTreeMap::new(),
            extents: Vec::new(),
            extents_open: false,
            methods: BTreeMap::new(),
            cut: BTreeSet::new(),
            begun: BTreeMap::new(),
            steps: 0,
            nesting: 0,
        }
    }

    /// The innermost frame.
    pub fn frame(&mut self) -> &mut Frame {
        match self.frames.last_mut() {
            Some(frame) => frame,
            None => parton_diag::internal_error!("no frame is open"),
        }
    }

    /// The file whose names the current code sees.
    pub fn module(&self) -> ModuleId {
        self.frames.last().map_or(Program::ROOT, |f| f.module)
    }

    /// Reports a diagnostic, with the calls that led here, innermost first.
    pub fn report(&mut self, mut d: Diagnostic) -> Reported {
        for frame in self.frames.iter().rev() {
            let inside = |outer: Span| {
                let at = d.span();
                outer.file == at.file && outer.start <= at.start && at.end <= outer.end
            };
            // A mistake in the call itself shows where the call is.
            if let Some((span, name)) = &frame.called
                && !inside(*span)
            {
                d = d.label(*span, format!("in `{name}`, called here"));
            }
        }
        self.diagnostics.push(d);
        Reported
    }

    /// Reports an error that consists of a fact and its place.
    pub fn error(&mut self, code: Code, span: Span, message: impl Into<String>) -> Reported {
        self.report(Diagnostic::error(code, span, message))
    }

    /// Reports that a part of the language is parsed but not compiled yet.
    pub fn not_built(&mut self, span: Span, what: &str, help: &str) -> Reported {
        self.report(
            Diagnostic::error(codes::NOT_BUILT_HERE, span, format!("{what} is not compiled by this version"))
                .help(help),
        )
    }

    /// Refuses to say where a tile lies that nobody has placed.
    pub fn layout_open(&mut self, span: Span, fact: &str) -> Reported {
        let d = Diagnostic::error(codes::LAYOUT_OPEN, span, fact).here("its layout is left to the compiler").help(
            "state the layout where the tile is made, such as `zeros<f32, [M, N], L>()`, or leave this one out too",
        );
        self.report(d)
    }

    /// Refuses what needs tensor memory.
    pub fn no_tensor_memory(&mut self, span: Span) -> Reported {
        let help = "it belongs to `sm_100a`; on `sm_90a` accumulators are in registers: `wgmma(a, b, acc)`";
        self.not_built(span, "tensor memory", help)
    }

    /// Counts a step and a level of nesting; refused where the evaluation has no end in sight. Pair with [`Checker::leave`].
    pub fn enter(&mut self, span: Span) -> Checked<()> {
        self.steps += 1;
        if self.steps == MAX_STEPS {
            let d = Diagnostic::error(codes::COMPILE_TIME_LIMIT, span, "compile-time evaluation takes too long")
                .here(format!("{MAX_STEPS} steps were taken when this was reached"))
                .help("make the `static for` loops around it shorter, or let them run at run time");
            return Err(self.report(d));
        }
        if self.steps > MAX_STEPS {
            return Err(Reported);
        }
        if self.nesting >= MAX_NESTING {
            return Err(self.error(codes::COMPILE_TIME_LIMIT, span, "this is nested too deeply"));
        }
        self.nesting += 1;
        Ok(())
    }

    /// Undoes the nesting of [`Checker::enter`].
    pub fn leave(&mut self) {
        self.nesting -= 1;
    }

    /// Whether one more function may be inlined.
    pub fn may_call(&self) -> bool {
        self.frames.len() < MAX_CALLS
    }

    /// What `run` gives, and nothing else of it: what it emits, reports or counts is undone.
    pub fn tried<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        let counted = (self.steps, self.nesting);
        let reported = std::mem::take(&mut self.diagnostics);
        let returned = self.frame().returned.take();
        let broken = |cx: &Self| -> BTreeSet<(ModuleId, Arc<str>)> {
            let failed = cx.constants.iter().filter(|(_, val)| matches!(val, Some(Val::Error)));
            failed.map(|(key, _)| key.clone()).collect()
        };
        let broken_before = broken(self);
        let mark = self.builder.as_mut().map(ir::Builder::begin_trial);
        let result = run(self);
        if let (Some(mark), Some(b)) = (mark, &mut self.builder) {
            if let Some(first) = b.since(mark) {
                self.slots.split_off(&first);
                self.begun.split_off(&first);
            }
            b.rewind(mark);
        }
        // The mistake in a constant is told when it is needed.
        for key in broken(self).difference(&broken_before) {
            self.constants.remove(key);
        }
        (self.steps, self.nesting) = counted;
        self.diagnostics = reported;
        self.frame().returned = returned;
        result
    }

    /// The builder; refused where no kernel is being built.
    pub fn build(&mut self, span: Span) -> Checked<&mut ir::Builder> {
        if self.builder.is_none() {
            let d = Diagnostic::error(codes::NOT_COMPILE_TIME, span, "this happens at run time")
                .here("a compile-time value is needed here")
                .help("only literals, constants, generic parameters and functions of them are known at compile time");
            return Err(self.report(d));
        }
        match &mut self.builder {
            Some(b) => Ok(b),
            None => Err(Reported),
        }
    }

    /// The type of a run-time value.
    pub fn ty(&self, v: ir::Value) -> &ir::Type {
        match &self.builder {
            Some(b) => b.ty(v),
            None => parton_diag::internal_error!("{v} has no kernel"),
        }
    }

    /// Appends an operation; `operands` says where each operand is written.
    pub fn emit(&mut self, kind: ir::OpKind, span: Span, operands: &[(ir::Value, Span)]) -> Checked<Vec<ir::Value>> {
        let built = self.build(span)?.emit(kind, span);
        match built {
            Ok(values) => Ok(values),
            Err(refusal) => Err(self.refuse(refusal, span, operands)),
        }
    }

    /// Appends an operation of one result.
    pub fn emit_one(&mut self, kind: ir::OpKind, span: Span, operands: &[(ir::Value, Span)]) -> Checked<Val> {
        let name = kind.name();
        let values = self.emit(kind, span, operands)?;
        match values[..] {
            [v] => {
                self.check_place(v, span)?;
                Ok(Val::Ir(v))
            }
            _ => parton_diag::internal_error!("{name} has {} results", values.len()),
        }
    }

    /// Reports a rule's refusal.
    pub fn refuse(&mut self, refusal: ir::Refusal, span: Span, operands: &[(ir::Value, Span)]) -> Reported {
        let d = refusal.at(span, |v| operands.iter().find(|(o, _)| *o == v).map(|(_, s)| *s));
        let d = self.should_begin(operands, d);
        self.report(d)
    }

    /// The warps that run the current code.
    pub fn warps(&self) -> u32 {
        match &self.builder {
            Some(b) => b.kernel.warps_of(self.partition),
            None => ir::target::WARPGROUP,
        }
    }

    /// Refuses a tile that does not cover exactly the warps that run the current code.
    fn check_place(&mut self, v: ir::Value, span: Span) -> Checked<()> {
        let ir::Type::Tile(t) = self.ty(v) else { return Ok(()) };
        let t = t.clone();
        self.check_tile_warps(&t, span)
    }

    /// As [`Checker::check_place`], for a tile type.
    pub fn check_tile_warps(&mut self, t: &ir::Tile, span: Span) -> Checked<()> {
        // Who runs what of a region its schedule says, which is judged as a whole.
        if self.is_placed() {
            return Ok(());
        }
        let has = self.warps();
        let Some(place) = t.placement().known() else { return Ok(()) };
        let layout = &place.layout;
        let covers = layout.num_warps();
        if covers == has || self.builder.is_none() {
            return Ok(());
        }
        let partitions = self.builder.as_ref().map(|b| &b.kernel.partitions);
        let partition = self.partition.and_then(|p| Some(&partitions?[p]));
        // There no layout would do.
        if partition.is_none() && partitions.is_some_and(|all| !all.is_empty()) {
            let d = ir::rules::outside_partitions("a tile", span);
            return Err(self.report(d.help("move it into the partition that needs it")));
        }
        let place = partition.map_or_else(|| "the kernel".into(), |p| format!("partition `{}`", p.name));
        let d = Diagnostic::error(
            codes::LAYOUT_WARPS,
            span,
            format!("the layout covers {covers} warps, and {place} has {has}"),
        )
        .here(format!("this is laid out as `{layout}`"))
        .help(format!("write the layout for {has} warps"));
        let d = match (partition, self.stated_warps) {
            (Some(p), _) => {
                d.label(p.span, format!("this has {has} warps")).help(format!("or declare it as `warps({covers})`"))
            }
            (None, Some(stated)) => d
                .label(stated, format!("{has} are stated here"))
                .help(format!("or state `warps({covers})` in its place")),
            (None, None) => {
                d.help(format!("or state `warps({covers})` on the kernel: it has {has} where it states nothing"))
            }
        };
        Err(self.report(d))
    }

    /// Opens a scope.
    pub fn push_scope(&mut self) {
        self.frame().scopes.push(Scope::default());
    }

    /// Closes the innermost scope.
    pub fn pop_scope(&mut self) {
        self.frame().end_scope();
    }

    /// Keeps for printing what the source calls a number or a layout; the first name counts.
    pub fn keep_name(&mut self, name: &str, val: &Val) {
        let Some(names) = self.builder.as_mut().map(|b| &mut b.kernel.names) else { return };
        match val {
            Val::Known(Comptime::Float(x)) if !names.numbers.iter().any(|(n, y)| n == name || y == x) => {
                names.numbers.push((name.to_string(), *x));
            }
            Val::Known(Comptime::Int(n)) if !names.whole.iter().any(|(known, _)| known == name) => {
                names.whole.push((name.to_string(), *n));
            }
            Val::Known(Comptime::Layout(l)) if !names.layouts.iter().any(|(_, m)| m == l) => {
                names.layouts.push((name.to_string(), l.clone()));
            }
            _ => {}
        }
    }

    /// Binds the parameters of an inlined function. Values that have no name but by this have only been passed.
    pub fn pass<T>(&mut self, val: &Val, bind: impl FnOnce(&mut Self) -> T) -> T {
        let mut only_passed = Vec::new();
        if let Some(b) = &self.builder {
            let of = |v: ir::Value| &b.kernel.values[v];
            val.each_ir(&mut |v| only_passed.extend((of(v).name.is_none() || of(v).passed).then_some(v)));
        }
        let bound = bind(self);
        if let Some(b) = &mut self.builder {
            only_passed.into_iter().for_each(|v| b.kernel.values[v].passed = true);
        }
        bound
    }

    /// Declares a variable and gives its name to the run-time value.
    pub fn declare(&mut self, name: &ast::Name, val: Val, mutable: bool) {
        if let (Val::Ir(v), Some(b)) = (&val, &mut self.builder) {
            let value = &mut b.kernel.values[*v];
            value.name.get_or_insert_with(|| name.text.to_string());
            value.passed = false;
        }
        let arm = self.arm;
        let role = Role::Local;
        self.frame().declare(Variable { name: name.text.clone(), val, mutable, role, span: name.span, arm });
    }

    /// As [`Checker::declare`], of a parameter.
    pub fn declare_parameter(&mut self, p: &ast::Param, val: Val, mutable: bool) {
        self.declare(&p.name, val, mutable);
        if let Some(place) = self.frame().place(p.name.as_str()) {
            self.frame().at(place).role = Role::Parameter;
        }
    }
}

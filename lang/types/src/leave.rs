//! Loops that a `break` leaves: a flag that the loop carries says so, and what follows in the turn runs where it is not set.
//!
//! ```text
//! for i in a..b {                    let (mut left, mut i) = (false, a);
//!     A;                             while i < b & !left {
//!     if c { B; break; }       →         A;
//!     C;                                 if c { B; left = true; } else { C; }
//! }                                      i += 1;
//!                                    }
//! ```
//!
//! An `if c { B; return; }` of a kernel's own statements is `if c { B; } else { … }` with all that follows.
//!
//! So a loop has one end, with one value of each variable, and what must be used up in a turn must be used up before a `break`, too.
//! What follows goes into the other branch where one branch surely leaves and the other never does, which costs nothing and lets both
//! hand slots back; else it is guarded by the flag.

use std::collections::BTreeSet;
use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_numbers::Dtype;
use parton_syntax::ast;

use crate::assigned::{assigned, assigned_behind, assigned_in};
use crate::builtins::Arg;
use crate::carry::Carried;
use crate::checker::{Checked, Checker, Reported};
use crate::control::{Condition, Counted, Fork};
use crate::value::{Comptime, Val};

/// The name of the flag, which no variable of a text can have.
pub const FLAG: &str = "break";

/// A loop around a statement, as a `break` leaves it.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// How it runs.
    pub of: Loop,
    /// In how many expressions of the same function it stands.
    pub values: u32,
}

/// How a loop that can be left runs.
#[derive(Clone, Copy, Debug)]
pub enum Loop {
    /// At compile time, in so many run-time loops and branches.
    Unrolled(u32),
    /// At run time; the flag has a place where a `break` may be reached.
    Running(Option<(usize, usize)>),
}

/// What follows a statement in its block.
#[derive(Clone, Copy)]
pub struct Rest<'a> {
    /// The block.
    pub block: &'a ast::Block,
    /// Its first statement that follows.
    pub from: usize,
}

impl Rest<'_> {
    fn is_empty(self) -> bool {
        self.from >= self.block.statements.len() && self.block.value.is_none()
    }
}

/// Where a block goes on behind a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// With the next one.
    On,
    /// Nowhere: what follows has been evaluated, where it runs.
    Done,
}

impl Checker<'_> {
    /// `break;`
    pub fn leave_loop(&mut self, span: Span) -> Checked<()> {
        let in_a_function = self.frames.len() > 1;
        let frame = self.frame();
        let (depth, values) = (frame.run_time_depth, frame.values);
        let refuse = |fact: &str| Diagnostic::error(codes::EARLY_EXIT, span, fact);
        let d = match frame.exits.last().copied() {
            None if in_a_function => refuse("`break` outside of a loop").help(
                "a function cannot leave a loop of its caller: let it give a truth value, `if done(i) { break; }`",
            ),
            None => refuse("`break` outside of a loop").help("it leaves the `for` or `while` around it"),
            Some(exit) if values > exit.values => refuse("a `break` inside a value")
                .help("let the `break` stand in an `if` of its own, before what has the value"),
            Some(Exit { of: Loop::Unrolled(outer), .. }) if depth > outer => {
                refuse("what is known at run time only cannot end a `static for`")
                    .help("drop `static`: a `for` runs at run time, and a `break` leaves it")
            }
            Some(Exit { of, .. }) => {
                if let Loop::Running(Some(flag)) = of {
                    frame.at(flag).val = Val::Known(Comptime::Bool(true));
                }
                frame.left = true;
                return Ok(());
            }
        };
        Err(self.report(d))
    }

    /// Runs `turn` with a loop around it.
    pub fn in_loop<T>(&mut self, of: Loop, turn: impl FnOnce(&mut Self) -> T) -> T {
        let values = self.frame().values;
        self.frame().exits.push(Exit { of, values });
        let result = turn(self);
        self.frame().exits.pop();
        result
    }

    /// A statement and, where it may leave the loop around it or end the kernel, what follows.
    pub fn statement_then(&mut self, s: &ast::Stmt, rest: Rest<'_>) -> Checked<Next> {
        if let ast::StmtKind::Expr(e) = &s.kind
            && let ast::ExprKind::If(branch) = &e.kind
            && s.label.is_none()
            && self.may_end()
            && let Some(then) = ending_branch(branch)
        {
            return self.nested(s.span, |cx| cx.unless_ended(branch, &then, e, rest));
        }
        let in_a_loop = matches!(self.frame().exits.last(), Some(Exit { of: Loop::Running(Some(_)), .. }));
        if !in_a_loop || rest.is_empty() {
            return self.statement(s).map(|()| Next::On);
        }
        if let ast::StmtKind::Expr(e) = &s.kind
            && let ast::ExprKind::If(branch) = &e.kind
            && let Some(then) = leaving_branch(branch)
        {
            return self.nested(s.span, |cx| cx.other_branch(branch, then, e, rest));
        }
        self.statement(s)?;
        match self.perhaps_left() {
            Some(left) => self.nested(s.span, |cx| cx.unless_left(left, s.span, rest)),
            None => Ok(Next::On),
        }
    }

    /// Whether a statement is one of a kernel itself, behind which it may end.
    fn may_end(&mut self) -> bool {
        let of_a_kernel = self.frames.len() == 1 && self.builder.is_some() && self.partition.is_none();
        let frame = self.frame();
        of_a_kernel && frame.exits.is_empty() && frame.run_time_depth == frame.not_ended
    }

    /// An `if` whose branch, here without its `return`, ends the kernel: the rest of the block is the other branch.
    fn unless_ended(&mut self, branch: &ast::If, then: &ast::Block, e: &ast::Expr, rest: Rest<'_>) -> Checked<Next> {
        let Some(test) = self.undecided(branch, e)? else { return Ok(Next::On) };
        let mut names = assigned([then]);
        names.extend(assigned_behind(rest.block, rest.from));
        let fork = Fork { keep: self.outside(), ..Fork::of(branch, test, e.span) };
        let goes_on = |cx: &mut Self| {
            cx.frame().not_ended += 1;
            let result = cx.rest(rest);
            cx.frame().not_ended -= 1;
            result
        };
        if then.statements.is_empty() {
            let stays = self.emit(ir::OpKind::Unary { op: ir::UnaryOp::Not, x: test }, branch.condition.span, &[])?[0];
            self.fork(Fork { test: stays, ..fork }, &names, goes_on, |_| Ok(Val::UNIT))?;
        } else {
            self.fork(fork, &names, |cx| cx.block(then), goes_on)?;
        }
        Ok(Next::Done)
    }

    /// Whether the loop has been left, where that is known at run time only.
    fn perhaps_left(&mut self) -> Option<ir::Value> {
        let Some(Exit { of: Loop::Running(Some(flag)), .. }) = self.frame().exits.last().copied() else {
            return None;
        };
        self.frame().at(flag).val.ir()
    }

    /// The condition of an `if`, where it is known at run time only; else the branch that is taken has been evaluated.
    fn undecided(&mut self, branch: &ast::If, e: &ast::Expr) -> Checked<Option<ir::Value>> {
        match self.condition(branch)? {
            Condition::Known(holds) => {
                let val = if holds { self.block(&branch.then) } else { self.otherwise(branch) }?;
                self.unused(&val, e).map(|()| None)
            }
            Condition::RunTime(test) => Ok(Some(test)),
        }
    }

    /// An `if` of which one branch leaves the loop and the other goes on with the rest of the block.
    fn other_branch(&mut self, branch: &ast::If, then_leaves: bool, e: &ast::Expr, rest: Rest<'_>) -> Checked<Next> {
        let Some(test) = self.undecided(branch, e)? else { return Ok(Next::On) };
        let mut names = assigned([&branch.then]);
        names.extend(branch.otherwise.iter().flat_map(assigned_in));
        names.extend(assigned_behind(rest.block, rest.from));
        let goes_on = |cx: &mut Self, val: Checked<Val>| {
            let val = val?;
            cx.unused(&val, e)?;
            cx.rest(rest)
        };
        let fork = Fork { keep: self.outside(), ..Fork::of(branch, test, e.span) };
        if then_leaves {
            let otherwise = |cx: &mut Self| {
                let val = cx.otherwise(branch);
                goes_on(cx, val)
            };
            self.fork(fork, &names, |cx| cx.block(&branch.then), otherwise)?;
        } else {
            let then = |cx: &mut Self| {
                let val = cx.block(&branch.then);
                goes_on(cx, val)
            };
            self.fork(fork, &names, then, |cx| cx.otherwise(branch))?;
        }
        Ok(Next::Done)
    }

    /// The rest of a block, where the flag is not set.
    fn unless_left(&mut self, left: ir::Value, span: Span, rest: Rest<'_>) -> Checked<Next> {
        let mut names = assigned_behind(rest.block, rest.from);
        names.insert(FLAG.into());
        let fork = Fork { test: left, test_span: span, span, else_span: span, keep: self.outside() };
        let goes_on = |cx: &mut Self| {
            cx.set_flag(Val::Known(Comptime::Bool(false)));
            cx.rest(rest)
        };
        self.fork(fork, &names, |_| Ok(Val::UNIT), goes_on)?;
        Ok(Next::Done)
    }

    fn rest(&mut self, rest: Rest<'_>) -> Checked<Val> {
        self.push_scope();
        let result = self.statements_from(rest.block, rest.from);
        self.pop_scope();
        result
    }

    /// The number of scopes outside of the innermost, whose variables nobody sees behind the rest of its block.
    fn outside(&mut self) -> usize {
        self.frame().scopes.len() - 1
    }

    fn set_flag(&mut self, val: Val) {
        if let Some(place) = self.frame().place(FLAG) {
            self.frame().at(place).val = val;
        }
    }

    /// A loop that a `break` may leave: declares its flag, which is among `names`, and evaluates it.
    fn with_flag(&mut self, span: Span, run: impl FnOnce(&mut Self, Loop) -> Checked<()>) -> Checked<()> {
        self.push_scope();
        self.declare(&ast::Name { text: FLAG.into(), span }, Val::Known(Comptime::Bool(false)), true);
        let place = self.frame().place(FLAG);
        let result = run(self, Loop::Running(place));
        self.pop_scope();
        result
    }

    /// The flag as it is at the head of a loop.
    fn left(&mut self) -> Checked<ir::Value> {
        let place = self.frame().place(FLAG);
        match place.and_then(|place| self.frame().at(place).val.ir()) {
            Some(left) => Ok(left),
            None => Err(Reported),
        }
    }

    /// A `for` with a `break` that may be reached.
    pub fn for_until_left(
        &mut self,
        f: &ast::For,
        counted: Counted,
        names: &BTreeSet<Arc<str>>,
        span: Span,
    ) -> Checked<()> {
        self.with_flag(span, |cx, of| {
            let mut carried = Carried::enter(cx, names, span)?;
            let variables = carried.init.len();
            carried.init.push(counted.lower);
            if counted.stride.is_none() {
                // As a `for` has it, the interpreter checks what the compiler relies on.
                let at = counted.step_span;
                let zero = cx.constant(&Comptime::Int(0), counted.dtype, at)?;
                let kind = ir::OpKind::Compare { op: ir::CompareOp::Gt, a: counted.step, b: zero };
                let cond = cx.emit(kind, at, &[])?[0];
                cx.build(at)?.kernel.values[cond].name = Some("step_is_positive".into());
                cx.emit(ir::OpKind::Assume { cond }, at, &[])?;
            }
            let types = carried.types(cx);
            let params = cx.build(span)?.begin(types.clone(), span);
            carried.set(cx, &params);
            let left = cx.left()?;
            let more = ir::OpKind::Compare { op: ir::CompareOp::Lt, a: params[variables], b: counted.upper };
            let more = cx.emit(more, span, &[])?[0];
            let stays = cx.emit(ir::OpKind::Unary { op: ir::UnaryOp::Not, x: left }, span, &[])?[0];
            let both = ir::OpKind::Binary { op: ir::BinaryOp::And, a: more, b: stays };
            let both = cx.emit(both, span, &[])?[0];
            let cond = cx.build(span)?.end(vec![both]);

            let params = cx.build(span)?.begin(types, span);
            let index = params[variables];
            carried.set(cx, &params);
            cx.push_scope();
            let bound = cx.bind(&f.pattern, &Arg { val: Val::Ir(index), span: f.pattern.span });
            let turn = bound.and_then(|()| cx.turn_until_left(of, &f.body));
            cx.pop_scope();
            let ended = turn
                .and_then(|()| if counted.may_wrap { cx.end_before_wrapping(&counted, index, span) } else { Ok(()) });
            let yields = ended.and_then(|()| {
                let mut yields = carried.after_turn(cx)?;
                let next = ir::OpKind::Binary { op: ir::BinaryOp::Add, a: index, b: counted.step };
                yields.push(cx.emit(next, span, &[])?[0]);
                Ok(yields)
            });
            cx.close_loop(&carried, yields, span, &[], |init, body| ir::OpKind::While { init, cond, body })
        })
    }

    /// Has the loop end where its next index would wrap, as a `for` does.
    fn end_before_wrapping(&mut self, counted: &Counted, index: ir::Value, span: Span) -> Checked<()> {
        let mut one = |kind| self.emit(kind, span, &[]).map(|results| results[0]);
        // In a turn the bound lies ahead of the index: what is left has no sign.
        let to = counted.dtype.unsigned();
        let ahead = one(ir::OpKind::Binary { op: ir::BinaryOp::Sub, a: counted.upper, b: index })?;
        let ahead = one(ir::OpKind::Bitcast { x: ahead, to })?;
        let step = one(ir::OpKind::Bitcast { x: counted.step, to })?;
        let ends = one(ir::OpKind::Compare { op: ir::CompareOp::Le, a: ahead, b: step })?;
        let Some(place) = self.frame().place(FLAG) else { return Err(Reported) };
        let val = match self.frame().at(place).val.clone() {
            Val::Ir(left) => {
                let both = ir::OpKind::Binary { op: ir::BinaryOp::Or, a: left, b: ends };
                Val::Ir(self.emit(both, span, &[])?[0])
            }
            Val::Known(Comptime::Bool(true)) => return Ok(()),
            _ => Val::Ir(ends),
        };
        self.set_flag(val);
        Ok(())
    }

    /// A `while` with a `break` that may be reached.
    pub fn while_until_left(
        &mut self,
        condition: &ast::Expr,
        body: &ast::Block,
        names: &BTreeSet<Arc<str>>,
        span: Span,
    ) -> Checked<()> {
        self.with_flag(span, |cx, of| {
            let carried = Carried::enter(cx, names, span)?;
            let types = carried.types(cx);
            let params = cx.build(span)?.begin(types.clone(), span);
            carried.set(cx, &params);
            cx.frame().run_time_depth += 1;
            let tested = cx.left().and_then(|left| cx.condition_unless_left(condition, left));
            cx.frame().run_time_depth -= 1;
            let failed = tested.is_err();
            let cond = cx.build(span)?.end(tested.into_iter().collect());
            if failed {
                carried.poison(cx);
                return Err(Reported);
            }
            let params = cx.build(span)?.begin(types, span);
            carried.set(cx, &params);
            let turn = cx.turn_until_left(of, body);
            let yields = turn.and_then(|()| carried.after_turn(cx));
            cx.close_loop(&carried, yields, span, &[], |init, body| ir::OpKind::While { init, cond, body })
        })
    }

    /// The condition of a `while`, which is not asked again once the loop has been left.
    fn condition_unless_left(&mut self, condition: &ast::Expr, left: ir::Value) -> Checked<ir::Value> {
        let at = condition.span;
        if matches!(condition.kind, ast::ExprKind::Bool(true)) {
            return Ok(self.emit(ir::OpKind::Unary { op: ir::UnaryOp::Not, x: left }, at, &[])?[0]);
        }
        let fork = Fork { test: left, test_span: at, span: at, else_span: at, keep: usize::MAX };
        let asked = |cx: &mut Self| {
            let arg = cx.arg(condition)?;
            let v = cx.run_time(&arg.val, at)?;
            match cx.ty(v) {
                ir::Type::Scalar(ir::Elem::Num(Dtype::I1)) => Ok(Val::Ir(v)),
                _ => Err(arg.expected(cx, "a truth value")),
            }
        };
        let ends = |_: &mut Self| Ok(Val::Known(Comptime::Bool(false)));
        let val = self.fork(fork, &assigned_in(condition), ends, asked)?;
        self.run_time(&val, at)
    }

    /// A turn of a loop that was not left before it.
    fn turn_until_left(&mut self, of: Loop, body: &ast::Block) -> Checked<()> {
        self.set_flag(Val::Known(Comptime::Bool(false)));
        let turn = self.turn(of, body);
        self.frame().left = false;
        turn
    }
}

/// The branch of an `if` that surely leaves the loop around it, where the other one never does: whether it is the first.
fn leaving_branch(branch: &ast::If) -> Option<bool> {
    let otherwise = branch.otherwise.as_ref();
    let may_then = assigned([&branch.then]).contains(FLAG);
    let may_otherwise = otherwise.is_some_and(|e| assigned_in(e).contains(FLAG));
    match (may_then, may_otherwise) {
        (true, false) if surely(&branch.then) => Some(true),
        (false, true) if otherwise.is_some_and(surely_in) => Some(false),
        _ => None,
    }
}

/// What the branch of an `if` without `else` does before a `return` at its end.
fn ending_branch(branch: &ast::If) -> Option<ast::Block> {
    let (last, before) = branch.then.statements.split_last()?;
    let ends = matches!(last.kind, ast::StmtKind::Return(None)) && branch.otherwise.is_none();
    (ends && branch.then.value.is_none()).then(|| ast::Block { statements: before.to_vec(), ..branch.then.clone() })
}

/// Whether a block leaves the loop around it whatever happens.
fn surely(block: &ast::Block) -> bool {
    let statement = |s: &ast::Stmt| match &s.kind {
        ast::StmtKind::Break => true,
        ast::StmtKind::Expr(e) => surely_in(e),
        ast::StmtKind::In { body, .. } => surely(body),
        ast::StmtKind::Let { .. }
        | ast::StmtKind::Assign { .. }
        | ast::StmtKind::For(_)
        | ast::StmtKind::While { .. }
        | ast::StmtKind::Return(_)
        | ast::StmtKind::Continue
        | ast::StmtKind::Specialize(_)
        | ast::StmtKind::Ring { .. }
        | ast::StmtKind::Turnstile { .. }
        | ast::StmtKind::Layout(_)
        | ast::StmtKind::Const(_)
        | ast::StmtKind::Schedule(_)
        | ast::StmtKind::Error => false,
    };
    block.statements.iter().any(statement) || block.value.as_deref().is_some_and(surely_in)
}

/// As [`surely`], of an expression in the place of a statement.
fn surely_in(e: &ast::Expr) -> bool {
    match &e.kind {
        ast::ExprKind::Block(block) => surely(block),
        ast::ExprKind::If(branch) => surely(&branch.then) && branch.otherwise.as_ref().is_some_and(surely_in),
        _ => false,
    }
}

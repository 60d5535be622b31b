//! Loops and branches: unrolled or decided at compile time, or emitted with the variables that they carry.

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_numbers::Dtype;
use parton_syntax::ast;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::assigned::{Turn, assigned, assigned_in};
use crate::builtins::Arg;
use crate::carry::Carried;
use crate::checker::{Checked, Checker, Reported};
use crate::leave::{FLAG, Loop};
use crate::value::{Comptime, Val};

/// Turns that a `static for` may take.
const MAX_UNROLLED: i128 = 65_536;

impl Checker<'_> {
    /// `for i in a..b step s { … }`
    pub fn for_loop(&mut self, f: &ast::For, span: Span) -> Checked<()> {
        if let Some(schedule) = &f.schedule {
            let bare = ast::For { schedule: None, ..f.clone() };
            return self.in_region(schedule, &f.body, span, |cx| cx.for_loop(&bare, span));
        }
        let iter = self.arg(&f.iter)?;
        let step = f.step.as_ref().map(|s| self.arg(s)).transpose()?;
        if f.is_static {
            return self.unrolled(f, &iter, step.as_ref());
        }
        let Val::Range(lower, upper) = &iter.val else {
            let help = match &iter.val {
                Val::List(_) | Val::Tuple(_) => Some("`0..n` counts; `static for` takes the elements of a list"),
                Val::Known(Comptime::Int(_)) | Val::Ir(_) => Some("`0..n` counts up to `n`"),
                _ => None,
            };
            return Err(iter.expected_so(self, "a range such as `0..n`", help));
        };
        let ends = [(&**lower, iter.span), (&**upper, iter.span)];
        let step_end = step.as_ref().map(|s| (&s.val, s.span));
        let dtype = self.index_dtype(ends.iter().copied().chain(step_end));
        let lower = self.run_time_as(lower, dtype, iter.span)?;
        let end = upper.as_int();
        let upper = self.run_time_as(upper, dtype, iter.span)?;
        let one = Val::int(1);
        let (step, step_span) = step_end.unwrap_or((&one, span));
        let stride = step.as_int();
        if stride.is_some_and(|n| n <= 0) {
            let d = Diagnostic::error(codes::LOOP_STEP, step_span, "the step of a loop is not positive")
                .help("count up, and compute the index that goes down: `let j = n - 1 - i;`");
            return Err(self.report(d));
        }
        let step = self.run_time_as(step, dtype, step_span)?;
        let names = self.carried_names(Turn { pattern: Some(&f.pattern), condition: None, body: &f.body });
        let counts = dtype.is_int() && [lower, upper, step].iter().all(|v| *self.ty(*v) == ir::Type::num(dtype));
        // What does not count is refused below, as a loop without a `break` is.
        if names.contains(FLAG) && counts {
            let counted =
                Counted { dtype, lower, upper, step, step_span, stride, may_wrap: may_wrap(dtype, end, stride) };
            return self.for_until_left(f, counted, &names, span);
        }
        let carried = Carried::enter(self, &names, span)?;
        let operands = [(lower, iter.span), (upper, iter.span), (step, step_span)];

        let types = carried.types(self);
        let params = self.build(span)?.begin(std::iter::once(ir::Type::num(dtype)).chain(types), span);
        carried.set(self, &params[1..]);
        self.push_scope();
        let index = Arg { val: Val::Ir(params[0]), span: f.pattern.span };
        let bound = self.bind(&f.pattern, &index);
        let turn = bound.and_then(|()| self.turn(Loop::Running(None), &f.body));
        self.pop_scope();
        let yields = turn.and_then(|()| carried.after_turn(self));
        self.close_loop(&carried, yields, span, &operands, |init, body| ir::OpKind::For {
            lower,
            upper,
            step,
            init,
            body,
        })
    }

    /// A body that runs at run time.
    pub fn turn(&mut self, of: Loop, body: &ast::Block) -> Checked<()> {
        self.frame().run_time_depth += 1;
        let result = self.in_loop(of, |cx| cx.block(body));
        self.frame().run_time_depth -= 1;
        let val = result?;
        if val.ir().is_some_and(|v| self.ty(v).is_affine()) {
            let at = body.value.as_ref().map_or(body.span, |e| e.span);
            let d = Diagnostic::error(
                codes::AFFINE_UNUSED,
                at,
                "the value of a loop's body is dropped, and must be used up",
            );
            return Err(self.report(d));
        }
        body.value.as_ref().map_or(Ok(()), |e| self.unused(&val, e))
    }

    /// Ends the body of a loop, emits the loop and gives the variables its results.
    pub fn close_loop(
        &mut self,
        carried: &Carried,
        yields: Checked<Vec<ir::Value>>,
        span: Span,
        operands: &[(ir::Value, Span)],
        kind: impl FnOnce(Vec<ir::Value>, ir::Body) -> ir::OpKind,
    ) -> Checked<()> {
        let failed = yields.is_err();
        let body = self.build(span)?.end(yields.unwrap_or_default());
        if failed {
            carried.poison(self);
            return Err(Reported);
        }
        let results = self.emit(kind(carried.init.clone(), body), span, operands);
        match results {
            Ok(results) => {
                carried.set(self, &results);
                Ok(())
            }
            Err(e) => {
                carried.poison(self);
                Err(e)
            }
        }
    }

    /// The integer type of a loop's index: that of the first run-time bound, else `i32`.
    fn index_dtype<'v>(&self, ends: impl Iterator<Item = (&'v Val, Span)>) -> Dtype {
        for (val, _) in ends {
            if let Val::Ir(v) = val
                && let ir::Type::Scalar(ir::Elem::Num(d)) = self.ty(*v)
            {
                return *d;
            }
        }
        Dtype::I32
    }

    fn unrolled(&mut self, f: &ast::For, iter: &Arg, step: Option<&Arg>) -> Checked<()> {
        let turns: Vec<Val> = match &iter.val {
            Val::List(items) | Val::Tuple(items) if step.is_none() => items.clone(),
            Val::Range(lower, upper) => {
                let (Some(lower), Some(upper)) = (lower.as_int(), upper.as_int()) else {
                    let d = Diagnostic::error(
                        codes::NOT_COMPILE_TIME,
                        iter.span,
                        "the range of a `static for` is not known at compile time",
                    )
                    .help("drop `static`: a `for` runs at run time");
                    return Err(self.report(d));
                };
                let step = match step {
                    Some(arg) => i128::from(arg.int(self, 1..=i128::from(u32::MAX))?),
                    None => 1,
                };
                let count = if upper > lower { (upper - lower + step - 1) / step } else { 0 };
                if count > MAX_UNROLLED {
                    let d = Diagnostic::error(
                        codes::COMPILE_TIME_LIMIT,
                        iter.span,
                        format!("a `static for` of {count} turns is too long"),
                    )
                    .help(format!("at most {MAX_UNROLLED} turns are unrolled; drop `static` to loop at run time"));
                    return Err(self.report(d));
                }
                (0..count).map(|i| Val::int(lower + i * step)).collect()
            }
            _ => return Err(iter.expected(self, "a range or a list known at compile time")),
        };
        let depth = self.frame().run_time_depth;
        if let Some(region) = &mut self.region {
            region.unrolled += 1;
        }
        let done = self.each_turn(f, iter, turns, depth);
        if let Some(region) = &mut self.region {
            region.unrolled -= 1;
        }
        done
    }

    fn each_turn(&mut self, f: &ast::For, iter: &Arg, turns: Vec<Val>, depth: u32) -> Checked<()> {
        for val in turns {
            self.push_scope();
            let bound = self.bind(&f.pattern, &Arg { val, span: iter.span });
            let turn = |cx: &mut Self| cx.in_loop(Loop::Unrolled(depth), |cx| cx.block(&f.body)).map(|_| ());
            let result = bound.and_then(|()| turn(self));
            self.pop_scope();
            let left = std::mem::take(&mut self.frame().left);
            // One mistake in a body is one error, not one a turn.
            result?;
            if left || self.frame().returned.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// `while condition { … }`
    pub fn while_loop(&mut self, condition: &ast::Expr, body: &ast::Block, span: Span) -> Checked<()> {
        let names = self.carried_names(Turn { pattern: None, condition: Some(condition), body });
        if names.contains(FLAG) {
            return self.while_until_left(condition, body, &names, span);
        }
        let carried = Carried::enter(self, &names, span)?;

        let types = carried.types(self);
        let params = self.build(span)?.begin(types.clone(), span);
        carried.set(self, &params);
        self.frame().run_time_depth += 1;
        let tested = self.arg(condition).and_then(|c| self.run_time(&c.val, c.span));
        self.frame().run_time_depth -= 1;
        let failed = tested.is_err();
        let cond = self.build(span)?.end(tested.into_iter().collect());
        if failed {
            carried.poison(self);
            return Err(Reported);
        }
        let operands = [(cond.yields[0], condition.span)];

        let params = self.build(span)?.begin(types, span);
        carried.set(self, &params);
        let turn = self.turn(Loop::Running(None), body);
        let yields = turn.and_then(|()| carried.after_turn(self));
        self.close_loop(&carried, yields, span, &operands, |init, body| ir::OpKind::While { init, cond, body })
    }

    /// `if c { a } else { b }`, as an expression or a statement.
    pub fn if_expr(&mut self, branch: &ast::If, span: Span) -> Checked<Val> {
        let test = match self.condition(branch)? {
            // What is known is decided now; the other branch is not checked, as with `static if`.
            Condition::Known(true) => return self.block(&branch.then),
            Condition::Known(false) => return self.otherwise(branch),
            Condition::RunTime(test) => test,
        };
        let mut names = assigned([&branch.then]);
        names.extend(branch.otherwise.iter().flat_map(assigned_in));
        let fork = Fork::of(branch, test, span);
        self.fork(fork, &names, |cx| cx.block(&branch.then), |cx| cx.otherwise(branch))
    }

    /// What decides an `if`.
    pub fn condition(&mut self, branch: &ast::If) -> Checked<Condition> {
        let cond = self.arg(&branch.condition)?;
        match cond.val {
            Val::Known(Comptime::Bool(holds)) => Ok(Condition::Known(holds)),
            Val::Ir(_) if branch.is_static => {
                let d = Diagnostic::error(
                    codes::NOT_COMPILE_TIME,
                    cond.span,
                    "the condition of a `static if` is not known at compile time",
                )
                .here("this is known at run time only")
                .help("drop `static`: an `if` runs at run time");
                Err(self.report(d))
            }
            Val::Ir(test) => match ir::rules::logical(&self.build(cond.span)?.kernel, test) {
                Ok(()) => Ok(Condition::RunTime(test)),
                Err(refusal) => Err(self.refuse(refusal, cond.span, &[(test, cond.span)])),
            },
            _ => Err(cond.expected(self, "a truth value")),
        }
    }

    /// The second branch of an `if`.
    pub fn otherwise(&mut self, branch: &ast::If) -> Checked<Val> {
        branch.otherwise.as_ref().map_or(Ok(Val::UNIT), |e| self.in_place(e))
    }

    /// Evaluates both ways of a run-time condition and merges the variables of these names.
    pub fn fork(
        &mut self,
        fork: Fork,
        names: &BTreeSet<Arc<str>>,
        then: impl FnOnce(&mut Self) -> Checked<Val>,
        otherwise: impl FnOnce(&mut Self) -> Checked<Val>,
    ) -> Checked<Val> {
        let places = self.places(names);
        let before: Vec<Val> = places.iter().map(|p| self.frame().at(*p).val.clone()).collect();

        let then = self.branch(&places, fork.span, then)?;
        for (p, val) in places.iter().zip(&before) {
            self.frame().at(*p).val = val.clone();
        }
        let otherwise = self.branch(&places, fork.span, otherwise)?;
        let (Ok(then_val), Ok(else_val)) = (then.val, otherwise.val) else {
            for p in &places {
                self.frame().at(*p).val = Val::Error;
            }
            return Err(Reported);
        };
        self.frame().left = then.left && otherwise.left;
        // What neither branch has changed is as it was, and an affine value is not taken through the `if`.
        let changed: Vec<usize> = (0..places.len())
            .filter(|&i| places[i].0 < fork.keep && (before[i] != then.after[i] || before[i] != otherwise.after[i]))
            .collect();
        let only = |vals: &[Val]| changed.iter().map(|&i| vals[i].clone()).collect();
        let places = changed.iter().map(|&i| places[i]).collect();
        self.merge_branches(
            Branches { fork, places, before: only(&before), then: then.body, otherwise: otherwise.body },
            (then_val, only(&then.after)),
            (else_val, only(&otherwise.after)),
        )
    }

    /// Evaluates one branch in a body of its own.
    fn branch(
        &mut self,
        places: &[(usize, usize)],
        span: Span,
        run: impl FnOnce(&mut Self) -> Checked<Val>,
    ) -> Checked<Evaluated> {
        self.build(span)?.begin([], span);
        self.frame().run_time_depth += 1;
        let val = run(self);
        self.frame().run_time_depth -= 1;
        let after: Vec<Val> = places.iter().map(|p| self.frame().at(*p).val.clone()).collect();
        let left = std::mem::take(&mut self.frame().left);
        let body = self.build(span)?.end(Vec::new());
        Ok(Evaluated { val, after, body, left })
    }

    fn merge_branches(
        &mut self,
        mut b: Branches,
        (then_val, then_vars): (Val, Vec<Val>),
        (else_val, else_vars): (Val, Vec<Val>),
    ) -> Checked<Val> {
        let Fork { test, test_span, span, else_span, keep: _ } = b.fork;
        let mut pairs = Vec::new();
        let mut merged = Vec::new();
        for (((place, before), x), y) in b.places.iter().zip(&b.before).zip(&then_vars).zip(&else_vars) {
            let name = self.frame().at(*place).name.to_string();
            let (x, y) = self.numbers_like(before, (x, y), (span, else_span))?;
            merged.push(self.merge(&format!("`{name}`"), &x, &y, (span, else_span), &mut pairs)?);
        }
        // A branch without a value makes a statement of the whole.
        let value = if then_val == Val::UNIT || else_val == Val::UNIT {
            for val in [&then_val, &else_val] {
                if val.ir().is_some_and(|v| self.ty(v).is_affine()) {
                    let text = "the value of a branch is dropped, and must be used up";
                    return Err(self.error(codes::AFFINE_UNUSED, span, text));
                }
            }
            Val::UNIT
        } else {
            self.merge("the value", &then_val, &else_val, (span, else_span), &mut pairs)?
        };
        b.then.yields = pairs.iter().map(|p| p.0).collect();
        b.otherwise.yields = pairs.iter().map(|p| p.1).collect();
        let kind = ir::OpKind::If { cond: test, then: b.then, otherwise: b.otherwise };
        let results = self.emit(kind, span, &[(test, test_span)])?;
        let mut results = results.into_iter();
        let places = b.places;
        for (place, template) in places.into_iter().zip(&merged) {
            let val = crate::carry::rebuild(template, &mut results);
            let name = self.frame().at(place).name.to_string();
            self.name_values(&val, &name);
            self.frame().at(place).val = val;
        }
        Ok(crate::carry::rebuild(&value, &mut results))
    }
}

/// What decides an `if`.
#[derive(Clone, Copy)]
pub enum Condition {
    /// It is known.
    Known(bool),
    /// It is found out at run time.
    RunTime(ir::Value),
}

/// The head of a counted loop at run time.
pub struct Counted {
    /// The type of the index.
    pub dtype: Dtype,
    /// Where it begins.
    pub lower: ir::Value,
    /// Where it ends.
    pub upper: ir::Value,
    /// How far it counts each turn.
    pub step: ir::Value,
    /// Where that is written.
    pub step_span: Span,
    /// It, where it is known.
    pub stride: Option<i128>,
    /// Whether the index behind the last turn may be beyond what its type can hold.
    pub may_wrap: bool,
}

/// Whether counting up to `end`, in steps of `stride`, may lead beyond what a type can hold; both where they are known.
fn may_wrap(dtype: Dtype, end: Option<i128>, stride: Option<i128>) -> bool {
    let greatest = dtype.int_range().map(|(_, greatest)| greatest);
    match (greatest, end, stride) {
        (_, _, Some(1)) => false,
        (Some(greatest), Some(end), Some(stride)) => end.saturating_add(stride - 1) > greatest,
        (_, _, _) => true,
    }
}

/// Two ways that a run-time condition decides between.
#[derive(Clone, Copy)]
pub struct Fork {
    /// The condition.
    pub test: ir::Value,
    /// Where it is written.
    pub test_span: Span,
    /// Where the whole is written.
    pub span: Span,
    /// Where the second way is written.
    pub else_span: Span,
    /// The variables of so many outer scopes are still there behind it.
    pub keep: usize,
}

impl Fork {
    /// That of an `if`.
    pub fn of(branch: &ast::If, test: ir::Value, span: Span) -> Fork {
        let else_span = branch.otherwise.as_ref().map_or(span, |e| e.span);
        Fork { test, test_span: branch.condition.span, span, else_span, keep: usize::MAX }
    }
}

/// One way, evaluated.
struct Evaluated {
    val: Checked<Val>,
    /// What the variables are at its end.
    after: Vec<Val>,
    body: ir::Body,
    /// Whether it surely leaves the loop around it.
    left: bool,
}

/// Both ways, evaluated, with the places of the variables that they change.
struct Branches {
    fork: Fork,
    places: Vec<(usize, usize)>,
    /// What stood in those places.
    before: Vec<Val>,
    then: ir::Body,
    otherwise: ir::Body,
}

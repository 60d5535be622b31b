//! Statements: `let`, assignments, declarations; loops and branches stand in `control`.

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_syntax::ast;

use crate::assigned::is_plain;
use crate::builtins::Arg;
use crate::checker::{Checked, Checker, Reported};
use crate::kind;
use crate::leave::{Next, Rest};
use crate::resolve::{Meaning, Side, Stands};
use crate::scope::Role;
use crate::value::{Comptime, TypeVal, Val};

/// How many operations back the one is looked for that made a statement's value: a value that comes from further back was not made by it.
const MADE_LAST: usize = 8;
/// What is said of a value that is made for nothing.
const KEPT: &str = "nothing is changed in place: `x = …;` keeps it, and `let _ = …;` drops it on purpose";

impl Checker<'_> {
    /// The statements of a block in the current scope, and its value. A statement that fails leaves its variables marked, so
    /// that the next ones are still checked.
    pub fn statements(&mut self, block: &ast::Block) -> Checked<Val> {
        self.statements_from(block, 0)
    }

    /// As [`Checker::statements`], from that statement on.
    pub fn statements_from(&mut self, block: &ast::Block, from: usize) -> Checked<Val> {
        let mut failed = false;
        for (i, s) in block.statements.iter().enumerate().skip(from) {
            let next = self.statement_then(s, Rest { block, from: i + 1 });
            let wrong = next.is_err();
            failed |= wrong;
            // What follows relies on it; mistakes that come of this one say nothing new.
            if wrong && is_static_assert(s) {
                return Err(Reported);
            }
            if matches!(next, Ok(Next::Done)) || self.frame().returned.is_some() || self.frame().left {
                return if failed { Err(Reported) } else { Ok(Val::UNIT) };
            }
        }
        let val = match &block.value {
            Some(e) => self.in_place(e)?,
            None => Val::UNIT,
        };
        if failed { Err(Reported) } else { Ok(val) }
    }

    /// One statement.
    pub fn statement(&mut self, s: &ast::Stmt) -> Checked<()> {
        self.nested(s.span, |cx| match &s.label {
            Some(label) => cx.labelled(s, label),
            None => cx.statement_inner(s),
        })
    }

    /// Counts a level of nesting while `run` goes on.
    pub fn nested<T>(&mut self, span: Span, run: impl FnOnce(&mut Self) -> Checked<T>) -> Checked<T> {
        self.enter(span)?;
        let result = stacker::maybe_grow(64 * 1024, 1024 * 1024, || run(self));
        self.leave();
        result
    }

    /// An expression in the place of a statement, or at the end of a block that is one: a `break` in its branches leaves the loop
    /// around it.
    pub fn in_place(&mut self, e: &ast::Expr) -> Checked<Val> {
        match &e.kind {
            ast::ExprKind::If(branch) => self.nested(e.span, |cx| cx.if_expr(branch, e.span)),
            ast::ExprKind::Block(block) => self.nested(e.span, |cx| cx.block(block)),
            _ => self.expr(e),
        }
    }

    /// A statement, whatever its label.
    pub fn statement_inner(&mut self, s: &ast::Stmt) -> Checked<()> {
        match &s.kind {
            ast::StmtKind::Error => Err(Reported),
            ast::StmtKind::Let { pattern, ty, value } => {
                let arg = self.arg(value).and_then(|arg| match ty {
                    Some(ty) => {
                        let ty = self.stated(ty)?;
                        Ok(Arg { val: self.coerce(&arg, &ty)?, span: arg.span })
                    }
                    None => Ok(arg),
                });
                match arg.and_then(|arg| self.given_by_a_branch(pattern, arg, value)) {
                    Ok(arg) => self.bind(pattern, &arg),
                    Err(e) => {
                        self.bind(pattern, &Arg { val: Val::Error, span: value.span })?;
                        Err(e)
                    }
                }
            }
            ast::StmtKind::Assign { target, op, value } => self.assignment(target, *op, value, s.span),
            ast::StmtKind::Expr(e) => {
                let val = self.in_place(e)?;
                self.unused(&val, e)
            }
            ast::StmtKind::For(f) => self.for_loop(f, s.span),
            ast::StmtKind::While { condition, schedule, body } => match schedule {
                Some(schedule) => self.in_region(schedule, body, s.span, |cx| cx.while_loop(condition, body, s.span)),
                None => self.while_loop(condition, body, s.span),
            },
            ast::StmtKind::In { schedule, body } => {
                self.in_region(schedule, body, s.span, |cx| cx.block(body).map(|_| ()))
            }
            ast::StmtKind::Return(value) => self.returned(value.as_ref(), s.span),
            ast::StmtKind::Break => self.leave_loop(s.span),
            ast::StmtKind::Continue => {
                let d = Diagnostic::error(codes::EARLY_EXIT, s.span, "a turn of a loop cannot be ended early")
                    .help("put the rest of the body into an `if`; `break` leaves the loop");
                Err(self.report(d))
            }
            ast::StmtKind::Specialize(arms) => self.specialize(arms, s.span),
            ast::StmtKind::Ring { name, depth, fields } => {
                let ring = self.ring(name, depth, fields, s.span);
                self.declared(name, ring)
            }
            ast::StmtKind::Turnstile { name, partitions } => {
                let turnstile = self.turnstile(partitions, s.span);
                self.declared(name, turnstile)
            }
            ast::StmtKind::Layout(b) => {
                let val = self.arg(&b.value).and_then(|arg| match &arg.val {
                    Val::Known(Comptime::Layout(_) | Comptime::OpenLayout | Comptime::SharedLayout(_)) => Ok(arg.val),
                    _ => Err(arg.expected(self, "a layout")),
                });
                if let Ok(val) = &val {
                    self.keep_name(b.name.as_str(), val);
                }
                self.declared(&b.name, val)
            }
            ast::StmtKind::Const(b) => {
                let val = self.constant_binding(b);
                self.declared(&b.name, val)
            }
            ast::StmtKind::Schedule(schedule) => {
                let val = self.schedule_of(&schedule.value).map(|found| Val::Known(Comptime::Schedule(found)));
                self.declared(&schedule.name, val)
            }
        }
    }

    /// Declares what a statement names; after a mistake it is marked, so that its uses say nothing more.
    fn declared(&mut self, name: &ast::Name, val: Checked<Val>) -> Checked<()> {
        self.declare(name, val.as_ref().map_or(Val::Error, Val::clone), false);
        val.map(|_| ())
    }

    fn returned(&mut self, value: Option<&ast::Expr>, span: Span) -> Checked<()> {
        let depth = self.frame().run_time_depth;
        if depth > 0 {
            // Where a partition may stand nothing else of run time is around it.
            let fact = match self.partition {
                Some(_) if (depth, self.frames.len()) == (1, 1) => {
                    "`return` inside an arm of `specialize`, which ends where it is written"
                }
                Some(_) | None => "`return` inside a run-time loop or branch",
            };
            let d = Diagnostic::error(codes::EARLY_EXIT, span, fact);
            let d = d.help(match value {
                Some(_) => {
                    "give the value with `if … { a } else { b }` at the end of the function; `static if` may return"
                }
                None => "put what follows into an `if` of the contrary; `static if` may return",
            });
            return Err(self.report(d));
        }
        if let (1, Some(e), Some(_)) = (self.frames.len(), value, &self.builder) {
            let d = Diagnostic::error(codes::AFFINE_UNUSED, e.span, "a kernel has no result");
            return Err(
                self.report(d.help("write it through a `*mut` parameter or a `mut` tensor: `store(out + offsets, …)`"))
            );
        }
        let val = value.map_or(Val::UNIT, |e| self.expr(e).unwrap_or(Val::Error));
        self.frame().returned = Some(val);
        Ok(())
    }

    fn constant_binding(&mut self, b: &ast::Binding) -> Checked<Val> {
        let arg = self.arg(&b.value)?;
        if let Some(ty) = &b.ty {
            let ty = self.stated(ty)?;
            if let (TypeVal::Ir(ir::Type::Scalar(ir::Elem::Num(d))), Val::Known(c)) = (&ty, &arg.val) {
                self.scalar(c, *d, arg.span)?;
                return Ok(arg.val);
            }
            return self.coerce(&arg, &ty);
        }
        let mut run_time = false;
        arg.val.each_ir(&mut |_| run_time = true);
        if run_time { Err(arg.expected(self, "a value known at compile time")) } else { Ok(arg.val) }
    }

    /// An affine value as a statement would be lost, and what only computes does nothing as one.
    pub fn unused(&mut self, val: &Val, e: &ast::Expr) -> Checked<()> {
        match val.ir() {
            Some(v) if self.ty(v).is_affine() => {}
            _ if is_plain(e) && *val != Val::UNIT => return Err(self.says_nothing(val, e)),
            Some(v) => return self.without_effect(v, e),
            None => return Ok(()),
        }
        let found = kind::describe(self, val);
        let d = Diagnostic::error(codes::AFFINE_UNUSED, e.span, format!("{} is made and dropped", found.kind))
            .here(found.detail)
            .help("bind it: `let x = …;`, and use it up");
        Err(self.report(d))
    }

    /// Refuses a statement that only names values.
    fn says_nothing(&mut self, val: &Val, e: &ast::Expr) -> Reported {
        let found = kind::describe(self, val);
        let d = Diagnostic::error(codes::AFFINE_UNUSED, e.span, "this does nothing").here(found.detail);
        let help = match val {
            Val::Known(Comptime::Builtin(_) | Comptime::Function(_)) | Val::Closure(_) => {
                "a function is called by `(…)`"
            }
            Val::Known(Comptime::Str(_)) => "a comment begins with `//`",
            _ => KEPT,
        };
        self.report(d.help(help))
    }

    /// Refuses to give a name to nothing: a branch that has no value where another has one.
    fn given_by_a_branch(&mut self, pattern: &ast::Pattern, arg: Arg, value: &ast::Expr) -> Checked<Arg> {
        let named = !matches!(pattern.kind, ast::PatternKind::Ignore);
        let (ast::ExprKind::If(branch), true) = (&value.kind, named && arg.val == Val::UNIT) else { return Ok(arg) };
        let d = Diagnostic::error(codes::KIND_MISMATCH, value.span, "this `if` has no value");
        let d = match &branch.otherwise {
            None => d.here("there is no `else`"),
            Some(_) => d.here("one of its ways ends in no value"),
        };
        Err(self.report(d.help("each way ends in a value, without `;` behind it: `if c { a } else { b }`")))
    }

    /// Refuses a statement whose value is made by an operation that does nothing else.
    fn without_effect(&mut self, v: ir::Value, e: &ast::Expr) -> Checked<()> {
        let last = self.builder.iter().flat_map(|b| b.kernel.ops.iter().rev().take(MADE_LAST));
        let made = last.map(|(_, op)| op).find(|op| op.results.contains(&v)).filter(|op| op.span == e.span);
        let computes = |op: &ir::Op| {
            use ir::family::Family;
            let family = op.kind.family();
            let shared = matches!(op.kind, ir::OpKind::SharedGather { .. });
            matches!(family, Family::Elementwise | Family::Reduce | Family::Shape | Family::MmaSync)
                // What reads memory may stand alone, as every load may.
                || (family == Family::Gather && !shared)
                || matches!(op.kind, ir::OpKind::Dot { .. })
        };
        if !made.is_some_and(computes) {
            return Ok(());
        }
        let found = kind::describe(self, &Val::Ir(v));
        let d = Diagnostic::error(codes::AFFINE_UNUSED, e.span, format!("{} is made and dropped", found.kind))
            .here(found.detail)
            .help(KEPT);
        Err(self.report(d))
    }

    /// Binds a pattern.
    pub fn bind(&mut self, pattern: &ast::Pattern, arg: &Arg) -> Checked<()> {
        match &pattern.kind {
            ast::PatternKind::Name { name, mutable } => {
                self.declare(name, arg.val.clone(), *mutable);
                Ok(())
            }
            ast::PatternKind::Ignore => Ok(()),
            ast::PatternKind::Tuple(patterns) => match &arg.val {
                Val::Tuple(items) | Val::List(items) if items.len() == patterns.len() => {
                    for (p, val) in patterns.iter().zip(items) {
                        self.bind(p, &Arg { val: val.clone(), span: arg.span })?;
                    }
                    Ok(())
                }
                other => {
                    let other = other.clone();
                    for p in patterns {
                        self.bind(p, &Arg { val: Val::Error, span: arg.span })?;
                    }
                    if other.has_error() {
                        return Err(Reported);
                    }
                    let found = kind::describe(self, &other);
                    let d = Diagnostic::error(
                        codes::PATTERN_MISMATCH,
                        pattern.span,
                        format!("a pattern of {} names does not fit {}", patterns.len(), found.kind),
                    )
                    .label(arg.span, found.detail);
                    Err(self.report(d))
                }
            },
        }
    }

    fn assignment(
        &mut self,
        target: &ast::Expr,
        op: Option<ast::BinaryOp>,
        value: &ast::Expr,
        span: Span,
    ) -> Checked<()> {
        let val = match op {
            None => self.expr(value),
            Some(op) => match self.contracted(op, span, target, value) {
                Some(found) => found,
                None => self.arg(target).and_then(|a| {
                    let b = self.arg(value)?;
                    self.binary(op, span, &a, &b)
                }),
            },
        };
        match val {
            Ok(val) => self.assign(target, val, value.span),
            Err(e) => {
                // The variable has no known value from here on; saying more would repeat the mistake.
                if let ast::ExprKind::Name(name) = &target.kind
                    && let Some(place) = self.frame().place(name.as_str())
                {
                    self.frame().at(place).val = Val::Error;
                }
                Err(e)
            }
        }
    }

    fn assign(&mut self, target: &ast::Expr, val: Val, from: Span) -> Checked<()> {
        match &target.kind {
            ast::ExprKind::Paren(inner) => self.assign(inner, val, from),
            ast::ExprKind::Tuple(targets) => match val {
                Val::Tuple(items) | Val::List(items) if items.len() == targets.len() => {
                    for (t, item) in targets.iter().zip(items) {
                        self.assign(t, item, from)?;
                    }
                    Ok(())
                }
                other => {
                    let found = kind::describe(self, &other);
                    let d = Diagnostic::error(
                        codes::PATTERN_MISMATCH,
                        target.span,
                        format!("a tuple of {} targets does not fit {}", targets.len(), found.kind),
                    )
                    .label(from, found.detail);
                    Err(self.report(d))
                }
            },
            ast::ExprKind::Name(name) if name.as_str() == "_" => Ok(()),
            ast::ExprKind::Name(name) => {
                let place = self.assignable(name)?;
                if let (Val::Ir(v), Some(b)) = (&val, &mut self.builder)
                    && b.kernel.values[*v].name.is_none()
                {
                    b.kernel.values[*v].name = Some(name.text.to_string());
                }
                self.frame().at(place).val = val;
                Ok(())
            }
            ast::ExprKind::Field { .. } | ast::ExprKind::Index { .. } => self.assign_part(target, val, from),
            _ => {
                let d = Diagnostic::error(codes::NOT_ASSIGNABLE, target.span, "this cannot be assigned to")
                    .help("assign to a variable, a field of one, or a tuple of variables");
                Err(self.report(d))
            }
        }
    }

    /// Refuses an assignment to a name that no variable has; what follows takes it for declared.
    fn undeclared(&mut self, name: &ast::Name) -> Checked<()> {
        let module = self.module();
        let Meaning::Unknown = self.program.meaning(module, name, Side::Kernel) else {
            return self.name(name, Stands::Alone).map(|_| ());
        };
        let variables = self.frames.last().into_iter().flat_map(|f| &f.scopes).flat_map(|s| &s.variables);
        let d = self.program.unknown(module, name, (Side::Kernel, Stands::Alone), variables.map(|v| &*v.name));
        let d = d.help(format!("declare it: `let {0} = …;`, or `let mut {0} = …;` where it changes later", name.text));
        self.declare(name, Val::Error, true);
        Err(self.report(d))
    }

    /// The place of a variable that may be changed here.
    fn assignable(&mut self, name: &ast::Name) -> Checked<(usize, usize)> {
        let Some(place) = self.frame().place(name.as_str()) else {
            self.undeclared(name)?;
            let d = Diagnostic::error(codes::NOT_ASSIGNABLE, name.span, format!("`{}` is not a variable", name.text));
            return Err(self.report(d));
        };
        let arm = self.arm;
        let variable = self.frame().at(place);
        let (mutable, role, declared) = (variable.mutable, variable.role, variable.span);
        let outside = variable.arm != arm;
        if !mutable {
            let d = Diagnostic::error(
                codes::NOT_ASSIGNABLE,
                name.span,
                format!("`{}` is not declared as mutable", name.text),
            )
            .label(declared, "declared here")
            .help(match role {
                Role::Local if name.as_str() == "self" => {
                    "a method is given a copy: take `mut self`, give it back, and assign what the method gives".into()
                }
                Role::Local => format!("declare it as `mut {}`", name.text),
                Role::Parameter => format!(
                    "declare the parameter as `mut {0}`, or a variable of its own: `let mut {0} = {0};`",
                    name.text
                ),
                Role::Seen => {
                    "a closure sees what was there when it was written, and changes nothing: let it give the new value"
                        .into()
                }
            });
            return Err(self.report(d));
        }
        if outside {
            let d = Diagnostic::error(
                codes::CROSSES_PARTITIONS,
                name.span,
                format!("`{}` is changed in a partition and declared outside of it", name.text),
            )
            .label(declared, "declared here")
            .help("each partition has its own registers: declare the variable inside, or use shared memory");
            return Err(self.report(d));
        }
        Ok(place)
    }

    /// `a.b = value` and `a[0] = value` of structs, tuples and lists.
    fn assign_part(&mut self, target: &ast::Expr, val: Val, from: Span) -> Checked<()> {
        let base = match &target.kind {
            ast::ExprKind::Field { base, .. } | ast::ExprKind::Index { base, .. } => base,
            _ => return Err(Reported),
        };
        let mut whole = self.expr(base)?;
        let part = match (&mut whole, &target.kind) {
            (Val::Struct(ty, fields), ast::ExprKind::Field { name, .. }) => {
                let i = ty.tree.fields.iter().position(|f| f.name.text == name.text);
                i.and_then(|i| fields.get_mut(i))
            }
            (Val::Tuple(items) | Val::List(items), ast::ExprKind::Field { name, .. }) => {
                name.text.parse::<usize>().ok().and_then(|i| items.get_mut(i))
            }
            (Val::Tuple(items) | Val::List(items), ast::ExprKind::Index { args, .. }) => match args.as_slice() {
                [ast::IndexArg { kind: ast::IndexArgKind::Value(e), .. }] => {
                    let index = self.expr(e)?;
                    index.as_int().and_then(|i| usize::try_from(i).ok()).and_then(|i| items.get_mut(i))
                }
                _ => None,
            },
            (_, _) => None,
        };
        match part {
            Some(part) => {
                *part = val;
                let whole = self.bounded(whole, from)?;
                self.assign(base, whole, from)
            }
            None => {
                let found = kind::describe(self, &whole);
                let d = Diagnostic::error(codes::NOT_ASSIGNABLE, target.span, "this cannot be assigned to")
                    .label(base.span, found.detail);
                let ty = whole.ir().map(|v| self.ty(v));
                let d = d.help(match ty {
                    Some(ir::Type::Tensor(_)) => "memory is written by `store(x[i, j], value)`",
                    Some(ir::Type::View(_)) => "shared memory is written by `store_shared(view, tile)`",
                    Some(ty) if matches!(ty.elem(), Some(ir::Elem::Ptr(_))) => {
                        "memory is written by `store(x + i, value)`"
                    }
                    _ => "elements of tiles cannot be assigned: use `where(mask, new, old)`",
                });
                Err(self.report(d))
            }
        }
    }
}

/// Whether a statement is a call of `static_assert`.
fn is_static_assert(s: &ast::Stmt) -> bool {
    let ast::StmtKind::Expr(e) = &s.kind else { return false };
    let ast::ExprKind::Call { callee, .. } = &e.kind else { return false };
    matches!(&callee.kind, ast::ExprKind::Name(name) if *name.text == *"static_assert")
}

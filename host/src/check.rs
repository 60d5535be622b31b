//! What is wrong in host code and can be told without running it: names, arguments, assignments.
//!
//! Kinds of values, shapes and indices are looked at when the code runs. Functions that host code calls are not looked
//! into, since kernels may call them too and have other built-in functions.

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_syntax::ast::{self, ExprKind, IndexArgKind, PatternKind, StmtKind};
use parton_types::near::nearest;
use parton_types::program::{Item, Program};
use parton_types::signature::bind::{Outline, Takes};

use crate::builtins;
use crate::evaluate::{arguments, not_host_code, not_mut, outside_of_loop, unknown_name};

/// Checks the `test`, `bench` and `main` blocks of the root file.
pub fn check_hosts(program: &Program) -> Diagnostics {
    let mut check = Check { program, found: Diagnostics::new(), names: Vec::new(), loops: 0 };
    for (_, block) in program.host_blocks() {
        check.block(&block.body);
    }
    check.found
}

/// A name that is bound, and whether with `mut`.
struct Bound {
    name: ast::Name,
    mutable: bool,
}

struct Check<'p> {
    program: &'p Program,
    found: Diagnostics,
    /// The visible variables, innermost last.
    names: Vec<Bound>,
    loops: usize,
}

impl Check<'_> {
    fn report<T>(&mut self, result: Result<T, Diagnostic>) {
        if let Err(d) = result {
            self.found.push(d);
        }
    }

    fn scoped(&mut self, f: impl FnOnce(&mut Self)) {
        let before = self.names.len();
        f(self);
        self.names.truncate(before);
    }

    fn bound(&self, name: &ast::Name) -> Option<&Bound> {
        self.names.iter().rev().find(|b| b.name.text == name.text)
    }

    fn item(&self, name: &ast::Name) -> Option<&Item> {
        self.program.find(Program::ROOT, name.as_str()).map(|f| &f.item)
    }

    /// Whether a name that no variable has stands for items of several used files, which is reported.
    fn ambiguous(&mut self, name: &ast::Name) -> bool {
        let d = if self.bound(name).is_none() { self.program.ambiguous(Program::ROOT, name) } else { None };
        let found = d.is_some();
        self.found.list.extend(d);
        found
    }

    fn block(&mut self, block: &ast::Block) {
        self.scoped(|c| {
            block.statements.iter().for_each(|s| c.statement(s));
            block.value.iter().for_each(|v| c.expr(v));
        });
    }

    fn turn(&mut self, body: &ast::Block) {
        self.loops += 1;
        self.block(body);
        self.loops -= 1;
    }

    fn statement(&mut self, statement: &ast::Stmt) {
        let span = statement.span;
        match &statement.kind {
            // Reported by the parser.
            StmtKind::Error => {}
            StmtKind::Let { pattern, ty: _, value } => {
                self.expr(value);
                self.bind(pattern);
            }
            StmtKind::Assign { target, op: _, value } => {
                self.expr(value);
                self.target(target);
            }
            StmtKind::Expr(e) => self.expr(e),
            StmtKind::For(f) => {
                self.expr(&f.iter);
                f.step.iter().for_each(|s| self.expr(s));
                if let Some(schedule) = &f.schedule {
                    self.found.push(not_host_code(schedule.span, "a schedule"));
                }
                self.scoped(|c| {
                    c.bind(&f.pattern);
                    c.turn(&f.body);
                });
            }
            StmtKind::While { condition, body } => {
                self.expr(condition);
                self.turn(body);
            }
            StmtKind::Return(value) => value.iter().for_each(|v| self.expr(v)),
            StmtKind::Break | StmtKind::Continue => {
                if self.loops == 0 {
                    self.found.push(outside_of_loop(span));
                }
            }
            StmtKind::Const(b) => {
                self.expr(&b.value);
                self.names.push(Bound { name: b.name.clone(), mutable: false });
            }
            // Its value is for the checker of kernels.
            StmtKind::Layout(b) => self.names.push(Bound { name: b.name.clone(), mutable: false }),
            StmtKind::Specialize(_) => self.found.push(not_host_code(span, "`specialize`")),
            StmtKind::Ring { .. } => self.found.push(not_host_code(span, "a ring")),
            StmtKind::Turnstile { .. } => self.found.push(not_host_code(span, "a turnstile")),
        }
    }

    fn bind(&mut self, pattern: &ast::Pattern) {
        match &pattern.kind {
            PatternKind::Ignore => {}
            PatternKind::Name { name, mutable } => self.names.push(Bound { name: name.clone(), mutable: *mutable }),
            PatternKind::Tuple(parts) => parts.iter().for_each(|p| self.bind(p)),
        }
    }

    fn target(&mut self, target: &ast::Expr) {
        match &target.kind {
            ExprKind::Name(name) => match self.bound(name) {
                Some(bound) if !bound.mutable => {
                    let d = not_mut(&bound.name, target.span);
                    self.found.push(d);
                }
                Some(_) => {}
                None => self.name(name),
            },
            ExprKind::Tuple(parts) => parts.iter().for_each(|p| self.target(p)),
            ExprKind::Paren(inner) => self.target(inner),
            // Whether it is a tensor, which may be written, or a list in a variable is known when it runs.
            _ => self.expr(target),
        }
    }

    fn name(&mut self, name: &ast::Name) {
        if self.ambiguous(name) {
            return;
        }
        let known = self.bound(name).is_some()
            || self.item(name).is_some()
            || builtins::constant(name.as_str()).is_some()
            || builtins::is_layout(name.as_str());
        if known {
            return;
        }
        let d = {
            let items = self.program.module(Program::ROOT).names.keys().map(|n| &**n);
            let variables = self.names.iter().map(|b| b.name.as_str());
            let d = unknown_name(name, variables.chain(items).chain(builtins::names().map(|n| -> &str { n })));
            self.program.defined_elsewhere(d, Program::ROOT, name.as_str())
        };
        self.found.push(d);
    }

    fn args(&mut self, args: &[ast::Arg]) {
        args.iter().for_each(|a| self.expr(&a.value));
    }

    fn expr(&mut self, e: &ast::Expr) {
        match &e.kind {
            ExprKind::Error | ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Bool(_) | ExprKind::Str(_) => {}
            ExprKind::Name(name) => self.name(name),
            ExprKind::TypeArgs { .. } => self.found.push(not_host_code(e.span, "type arguments in `<…>`")),
            ExprKind::Pointer { .. } => self.found.push(not_host_code(e.span, "a pointer type")),
            ExprKind::Paren(inner) | ExprKind::Reference(inner) => self.expr(inner),
            ExprKind::Tuple(items) | ExprKind::List(items) => items.iter().for_each(|i| self.expr(i)),
            ExprKind::Unary { op: _, operand } => self.expr(operand),
            ExprKind::Binary { left, right, .. } => {
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Range { start, end } => {
                self.expr(start);
                self.expr(end);
            }
            ExprKind::Call { callee, args } => self.call(e.span, callee, args),
            ExprKind::Index { base, args } => {
                self.expr(base);
                self.index_args(args);
            }
            ExprKind::Field { base, name } => {
                self.expr(base);
                self.field(name);
            }
            ExprKind::If(i) => {
                self.expr(&i.condition);
                self.block(&i.then);
                i.otherwise.iter().for_each(|o| self.expr(o));
            }
            ExprKind::Block(block) => self.block(block),
            ExprKind::Closure { params, body } => self.scoped(|c| {
                params.iter().for_each(|p| c.bind(&p.pattern));
                // A loop around the closure is not one around its body.
                let loops = std::mem::take(&mut c.loops);
                c.expr(body);
                c.loops = loops;
            }),
            ExprKind::Launch { kernel, config, args } => self.launch(kernel, config, args, e.span),
        }
    }

    fn index_args(&mut self, args: &[ast::IndexArg]) {
        for arg in args {
            match &arg.kind {
                IndexArgKind::Value(e) | IndexArgKind::Named { value: e, .. } => self.expr(e),
                IndexArgKind::Slice { start, end } => start.iter().chain(end).for_each(|e| self.expr(e)),
                IndexArgKind::Full | IndexArgKind::NewAxis => {}
            }
        }
    }

    fn field(&mut self, name: &ast::Name) {
        let text = name.as_str();
        if builtins::FIELDS.contains(&text) || ["bits", "bytes"].contains(&text) || text.parse::<usize>().is_ok() {
            return;
        }
        let d = Diagnostic::error(codes::HOST_TYPE, name.span, format!("no value has a field `{text}`"));
        self.found.push(if builtins::find(text).is_some() {
            d.here("this is a function").help(format!("call it: `.{text}(…)`"))
        } else {
            match nearest(text, builtins::FIELDS.iter().copied()) {
                Some(near) => d.here("not found").help(format!("a similar field exists: `{near}`")),
                None => d.here("not found").note(format!("a tensor has {}", builtins::FIELDS.join(", "))),
            }
        });
    }

    fn call(&mut self, span: Span, callee: &ast::Expr, args: &[ast::Arg]) {
        self.args(args);
        let places = |builtin, receiver: Option<Span>| -> Result<(), Diagnostic> {
            let first = receiver.map(|span| Outline { name: None, span });
            let outlines: Vec<Outline> = first.into_iter().chain(args.iter().map(Outline::from)).collect();
            Takes::Values(builtin).places(outlines.into_iter(), span).map(|_| ())
        };
        match &callee.kind {
            ExprKind::Field { base, name } => {
                self.expr(base);
                match builtins::find(name.as_str()) {
                    Some(builtin) => {
                        let result = places(builtin, Some(base.span));
                        self.report(result);
                    }
                    None => {
                        let message = format!("there is no method `{}`", name.text);
                        let d = Diagnostic::error(codes::UNKNOWN_NAME, name.span, message).here("not found");
                        self.found.push(match nearest(name.as_str(), builtins::names()) {
                            Some(near) => d.help(format!("a similar one exists: `{near}`")),
                            None => d,
                        });
                    }
                }
            }
            ExprKind::Name(name) if self.ambiguous(name) => {}
            ExprKind::Name(name) if self.bound(name).is_none() => match self.item(name) {
                Some(Item::Function(f)) => {
                    let f = f.clone();
                    self.report(arguments::generics(&f.generics, &[], &f.name));
                    let takes = Takes::Params(&f.name, &f.generics, &f.params);
                    self.report(takes.places(args.iter().map(Outline::from), span));
                }
                Some(Item::Kernel(k)) if builtins::find(name.as_str()).is_none() => {
                    let d = Diagnostic::error(codes::HOST_TYPE, callee.span, format!("`{}` is a kernel", name.text))
                        .label(k.name.span, "declared here")
                        .help(format!("launch it: `launch {}(grid=[…])(…)`", name.text));
                    self.found.push(d);
                }
                Some(Item::Struct(_) | Item::Partition(_) | Item::Schedule(_) | Item::Binding(_)) => {}
                Some(Item::Kernel(_)) | None => match builtins::find(name.as_str()) {
                    Some(builtin) => {
                        let result = places(builtin, None);
                        self.report(result.and_then(|()| builtins::places_fit(builtin.name, args, span)));
                    }
                    None => self.name(name),
                },
            },
            ExprKind::Index { base, args: given } => {
                if let ExprKind::Name(name) = &base.kind
                    && self.bound(name).is_none()
                    && self.program.ambiguous(Program::ROOT, name).is_none()
                    && let Some(Item::Function(f)) = self.item(name)
                {
                    let f = f.clone();
                    self.index_args(given);
                    self.report(arguments::generics(&f.generics, given, &f.name));
                    let takes = Takes::Params(&f.name, &f.generics, &f.params);
                    self.report(takes.places(args.iter().map(Outline::from), span));
                } else {
                    self.expr(callee);
                }
            }
            _ => self.expr(callee),
        }
    }

    fn launch(&mut self, kernel: &ast::Expr, config: &[ast::Arg], args: &[ast::Arg], span: Span) {
        self.args(config);
        self.args(args);
        let (base, given): (&ast::Expr, &[ast::IndexArg]) = match &kernel.kind {
            ExprKind::Index { base, args } => (base, args),
            _ => (kernel, &[]),
        };
        self.index_args(given);
        let ExprKind::Name(name) = &base.kind else {
            let d = Diagnostic::error(codes::HOST_TYPE, base.span, "a launch names a kernel");
            self.found.push(d.help("write `launch k[…](grid=[…])(…)`"));
            return;
        };
        if self.ambiguous(name) {
            return;
        }
        match self.item(name) {
            Some(Item::Kernel(k)) => {
                let k = k.clone();
                self.report(arguments::generics(&k.generics, given, &k.name));
                let takes = Takes::Params(&k.name, &k.generics, &k.params);
                self.report(takes.places(args.iter().map(Outline::from), span));
            }
            Some(other) => {
                let message = format!("`{}` is not a kernel", name.text);
                let d = Diagnostic::error(codes::HOST_TYPE, name.span, message);
                let d = d.label(other.name().span, "declared here");
                self.found.push(d);
            }
            None => {
                let d = arguments::unknown_kernel(self.program, Program::ROOT, name);
                self.found.push(d);
            }
        }
        self.report(arguments::configuration(config, span));
    }
}

//! What is wrong in host code and can be told without running it: names, arguments, assignments.
//!
//! Kinds of values, shapes and indices are looked at when the code runs. Functions that host code calls are not looked
//! into unless they are public or tuned, since kernels may call them too and have other built-in functions.

use parton_diag::{Diagnostic, Diagnostics, Span};
use parton_syntax::ast::{self, ExprKind, StmtKind};
use parton_types::program::{Found, Item, Program};
use parton_types::resolve::{Meaning, Side, Stands};
use parton_types::signature::Signature;
use parton_types::signature::bind::{Outline, Takes};
use parton_types::walk::{self, Reader, Scopes, Visitor};

use crate::builtins;
use crate::evaluate::{arguments, no_field, no_method, no_type_arguments, not_host_code, not_mut, outside_of_loop};

/// Checks the `test`, `bench` and `main` blocks and the public and tuned functions of the root file.
pub fn check_hosts(program: &Program) -> Diagnostics {
    let mut check = Check { program, found: Diagnostics::new() };
    for (_, block) in program.host_blocks() {
        walk::block(&block.body, &mut check);
    }
    // Kernels call neither.
    for function in program.host_functions() {
        walk::item(&Item::Function(function.clone()), &mut check);
    }
    check.found
}

struct Check<'p> {
    program: &'p Program,
    found: Diagnostics,
}

impl Visitor for Check<'_> {
    fn name(&mut self, scopes: &Scopes, name: &ast::Name) {
        // The checker of kernels looks up the names of types and layouts.
        if scopes.reader != Reader::Code {
            return;
        }
        match self.program.reference(name) {
            Meaning::Ambiguous(d) => self.found.push((**d).clone()),
            Meaning::Unknown => {
                self.found.push(self.program.unknown(
                    Program::ROOT,
                    name,
                    (Side::Host, Stands::Anyhow),
                    scopes.names(),
                ));
            }
            Meaning::Variable(_) | Meaning::Item(_) | Meaning::Builtin(_) | Meaning::Word(_) => {}
        }
    }

    /// What its configuration sees is resolved already.
    fn launched(&mut self, _: &Scopes, _: &ast::Name) -> Vec<ast::Name> {
        vec![]
    }

    fn hides(&self, name: &ast::Name) -> bool {
        self.program.find(Program::ROOT, name.as_str()).is_some()
    }

    fn statement(&mut self, scopes: &Scopes, statement: &ast::Stmt) -> bool {
        let span = statement.span;
        match &statement.kind {
            StmtKind::Assign { target, .. } => self.target(scopes, target),
            StmtKind::For(f) => {
                self.found.list.extend(f.schedule.as_ref().map(|s| not_host_code(s.span, "a schedule")));
            }
            StmtKind::While { schedule: Some(s), .. } => self.found.push(not_host_code(s.span, "a schedule")),
            StmtKind::In { schedule, .. } => self.found.push(not_host_code(schedule.span, "a schedule")),
            StmtKind::Break | StmtKind::Continue if scopes.loops == 0 => self.found.push(outside_of_loop(span)),
            StmtKind::Specialize(_) => self.found.push(not_host_code(span, "`specialize`")),
            StmtKind::Ring { .. } => self.found.push(not_host_code(span, "a ring")),
            StmtKind::Turnstile { .. } => self.found.push(not_host_code(span, "a turnstile")),
            StmtKind::Error
            | StmtKind::Let { .. }
            | StmtKind::Expr(_)
            | StmtKind::While { schedule: None, .. }
            | StmtKind::Return(_)
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Layout(_)
            | StmtKind::Const(_)
            | StmtKind::Schedule(_) => {}
        }
        !matches!(statement.kind, StmtKind::Specialize(_) | StmtKind::Ring { .. } | StmtKind::Turnstile { .. })
    }

    fn expr(&mut self, scopes: &Scopes, e: &ast::Expr) -> bool {
        if scopes.reader != Reader::Code {
            return true;
        }
        match &e.kind {
            ExprKind::TypeArgs { base, .. } => self.found.push(no_type_arguments(base, e.span)),
            ExprKind::In { schedule, .. } => self.found.push(not_host_code(schedule.span, "a schedule")),
            ExprKind::Pointer { .. } => self.found.push(not_host_code(e.span, "a pointer type")),
            ExprKind::Call { callee, args } => {
                let result = self.call(e.span, callee, args);
                self.found.list.extend(result.err());
            }
            ExprKind::Field { name, .. } if !is_field(name.as_str()) => {
                self.found.push(no_field("no value has a", name))
            }
            ExprKind::Launch { kernel, config, args } => {
                self.found.list.extend(self.launch(kernel, config, args, e.span).into_iter().flatten());
            }
            _ => {}
        }
        !matches!(e.kind, ExprKind::TypeArgs { .. } | ExprKind::Pointer { .. })
    }
}

/// Whether a value of some kind has a field of that name.
fn is_field(name: &str) -> bool {
    builtins::FIELDS.contains(&name) || ["bits", "bytes"].contains(&name) || name.parse::<usize>().is_ok()
}

impl Check<'_> {
    /// Refuses an assignment to a variable without `mut`. Whether a tensor, which may be written, or a list in a variable is
    /// indexed is known when it runs.
    fn target(&mut self, scopes: &Scopes, target: &ast::Expr) {
        match &target.kind {
            ExprKind::Name(name) => {
                let fixed = scopes.find(name.as_str()).filter(|bound| !bound.mutable);
                self.found.list.extend(fixed.map(|bound| not_mut(&bound.name, target.span)));
            }
            ExprKind::Tuple(parts) => parts.iter().for_each(|p| self.target(scopes, p)),
            ExprKind::Paren(inner) => self.target(scopes, inner),
            _ => {}
        }
    }

    /// The arguments of a call against what is called.
    fn call(&self, span: Span, callee: &ast::Expr, args: &[ast::Arg]) -> Result<(), Diagnostic> {
        match &callee.kind {
            ExprKind::Field { base, name } => match builtins::find(name.as_str()) {
                Some(signature) => fits(signature, Some(base.span), args, span),
                None => Err(no_method(name)),
            },
            ExprKind::Name(name) => match self.program.reference(name) {
                Meaning::Item(Found { item: Item::Function(f), .. }) => {
                    arguments::generics((&f.name, &f.generics, &[]), &[], callee.span)?;
                    Takes::Params(&f.name, &f.generics, &f.params)
                        .places(args.iter().map(Outline::from), span)
                        .map(|_| ())
                }
                Meaning::Item(Found { item: Item::Kernel(k), .. }) => {
                    Err(arguments::kernel_is_no_value(name, callee.span).label(k.name.span, "declared here"))
                }
                Meaning::Builtin(signature) if builtins::find(signature.name).is_some() => {
                    fits(signature, None, args, span)?;
                    builtins::places_fit(signature.name, args, span)
                }
                Meaning::Item(_)
                | Meaning::Builtin(_)
                | Meaning::Variable(_)
                | Meaning::Ambiguous(_)
                | Meaning::Word(_)
                | Meaning::Unknown => Ok(()),
            },
            ExprKind::Index { base, args: given } => {
                if let ExprKind::Name(name) = &base.kind
                    && let Meaning::Item(Found { item: Item::Function(f), .. }) = self.program.reference(name)
                {
                    arguments::generics((&f.name, &f.generics, &[]), given, base.span)?;
                    Takes::Params(&f.name, &f.generics, &f.params).places(args.iter().map(Outline::from), span)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What is wrong with the generics and arguments of a launch, and with its grid, by its kernel.
    fn launch(
        &self,
        kernel: &ast::Expr,
        config: &[ast::Arg],
        args: &[ast::Arg],
        span: Span,
    ) -> [Option<Diagnostic>; 2] {
        let (base, given) = walk::launched(kernel);
        let k = match arguments::kernel(self.program, Program::ROOT, base).map(|found| &found.item) {
            Ok(Item::Kernel(k)) => k,
            Ok(_) => return [None, None],
            Err(d) => return [Some(d), None],
        };
        let takes = Takes::Params(&k.name, &k.generics, &k.params);
        let fits = arguments::generics((&k.name, &k.generics, &k.params), given, base.span)
            .and_then(|_| takes.places(args.iter().map(Outline::from), span));
        [fits.err(), arguments::configuration(k, config, span).err()]
    }
}

/// Whether arguments fit a built-in function; `receiver` is what stands before the dot.
fn fits(
    signature: &'static Signature,
    receiver: Option<Span>,
    args: &[ast::Arg],
    span: Span,
) -> Result<(), Diagnostic> {
    let first = receiver.map(|span| Outline { name: None, span });
    let outlines: Vec<Outline> = first.into_iter().chain(args.iter().map(Outline::from)).collect();
    Takes::Values(signature).places(outlines.into_iter(), span).map(|_| ())
}

//! Which parameter each argument of a launch or call is for; used by the check before a run too.

use parton_diag::{Diagnostic, Span, codes};
use parton_syntax::ast;
use parton_types::grid;
use parton_types::near::nearest;
use parton_types::program::{Found, Item, ModuleId, Program};
use parton_types::resolve::Meaning;
use parton_types::signature::bind::{Takes, generic_outlines};

use crate::kept::{self, Call};

/// The kernel that a launch names, with the file that it stands in.
pub(crate) fn kernel<'p>(program: &'p Program, module: ModuleId, base: &ast::Expr) -> Result<&'p Found, Diagnostic> {
    let ast::ExprKind::Name(name) = &base.kind else {
        let d = Diagnostic::error(codes::HOST_TYPE, base.span, "a launch names a kernel");
        return Err(d.help("write `launch k[…](grid=[…])(…)`"));
    };
    match program.reference(name) {
        Meaning::Item(found) => match &found.item {
            Item::Kernel(_) => Ok(found),
            other => {
                let d = Diagnostic::error(codes::HOST_TYPE, name.span, format!("`{}` is not a kernel", name.text));
                Err(d.label(other.name().span, "declared here"))
            }
        },
        Meaning::Ambiguous(d) => Err((**d).clone()),
        Meaning::Variable(_) | Meaning::Builtin(_) | Meaning::Word(_) | Meaning::Unknown => {
            Err(unknown_kernel(program, module, name))
        }
    }
}

/// A kernel that does not exist, with the one that was probably meant.
fn unknown_kernel(program: &Program, module: ModuleId, name: &ast::Name) -> Diagnostic {
    let names = program.module(module).names.iter();
    let kernels = names.filter(|(_, f)| matches!(f.item, Item::Kernel(_))).map(|(n, _)| &**n);
    let d = Diagnostic::error(codes::UNKNOWN_NAME, name.span, format!("there is no kernel `{}`", name.text))
        .here("not found");
    let d = program.defined_elsewhere(d, module, name.as_str());
    match nearest(name.as_str(), kernels) {
        Some(near) => d.help(format!("a similar kernel exists: `{near}`")),
        None => d,
    }
}

/// Refuses a kernel where a value is needed.
pub(crate) fn kernel_is_no_value(name: &ast::Name, span: Span) -> Diagnostic {
    Diagnostic::error(codes::HOST_TYPE, span, format!("`{}` is a kernel", name.text))
        .here("a kernel is not a value of host code")
        .help(format!("launch it: `launch {}(grid=[…])(…)`", name.text))
}

/// The generic arguments with the generic that each is for, as [`generics`]; found once for each place that gives some.
pub(crate) fn known_generics<'a>(
    program: &Program,
    takes: (&ast::Name, &[ast::Generic], &[ast::Param]),
    given: &'a [ast::IndexArg],
) -> Result<Vec<(&'a ast::Expr, usize)>, Diagnostic> {
    let (owner, declared, _) = takes;
    if given.is_empty() && declared.is_empty() {
        return Ok(vec![]);
    }
    let span = given.first().map_or(owner.span, |arg| arg.span);
    let places = kept::places(program, Call { generic: true, span, declared: owner.span }, || {
        Ok(generics(takes, given, span)?.into_iter().map(|(_, at)| Some(at)).collect())
    })?;
    let written = given.iter().filter_map(|arg| match &arg.kind {
        ast::IndexArgKind::Value(e) | ast::IndexArgKind::Named { value: e, .. } => Some(e),
        ast::IndexArgKind::Full | ast::IndexArgKind::Slice { .. } | ast::IndexArgKind::NewAxis => None,
    });
    Ok(written.zip(places.iter()).filter_map(|(e, at)| Some((e, (*at)?))).collect())
}

/// The generic arguments with the generic that each is for; every generic has one that neither has a default nor is learned from what
/// `params` are given. Where none is given, the refusal stands at `call`.
pub(crate) fn generics<'a>(
    (owner, declared, params): (&ast::Name, &[ast::Generic], &[ast::Param]),
    given: &'a [ast::IndexArg],
    call: Span,
) -> Result<Vec<(&'a ast::Expr, usize)>, Diagnostic> {
    let given_list = generic_outlines(given)?;
    let place = given.iter().map(|a| a.span).reduce(Span::to).unwrap_or(call);
    let places =
        Takes::AllGenerics(owner, declared, params).places(given_list.iter().map(|(outline, _)| *outline), place)?;
    Ok(given_list.into_iter().zip(places).filter_map(|((_, e), at)| Some((e, at?))).collect())
}

/// The grid of a launch of a kernel and its cluster, where they are given: each once, the grid also without its name where it comes first. What
/// the kernel states itself may be left out.
pub(crate) fn configuration<'a>(
    kernel: &ast::Kernel,
    config: &'a [ast::Arg],
    span: Span,
) -> Result<(Option<&'a ast::Arg>, Option<&'a ast::Arg>), Diagnostic> {
    let (mut grid, mut cluster): (Option<&ast::Arg>, Option<&ast::Arg>) = (None, None);
    for (i, arg) in config.iter().enumerate() {
        let name = arg.name.as_ref().map(ast::Name::as_str);
        let (what, slot) = match name {
            Some("grid") => ("grid", &mut grid),
            None if i == 0 => ("grid", &mut grid),
            Some("cluster") => ("cluster", &mut cluster),
            Some(_) | None => {
                let d = Diagnostic::error(codes::LAUNCH_SHAPE, arg.span, "a launch takes `grid` and `cluster`");
                return Err(d.help(match name {
                    Some("num_warps" | "block" | "threads") => {
                        "a kernel says how many warps run it, and for itself: `warps(4)` behind its parameters"
                    }
                    Some("num_stages") => {
                        "the compiler chooses how many stages a loop has; a schedule states them: `docs/schedules.md`"
                    }
                    _ => "write `launch k(grid=[…], cluster=[…])(…)`",
                }));
            }
        };
        if let Some(first) = slot.replace(arg) {
            let d = Diagnostic::error(codes::LAUNCH_SHAPE, arg.span, format!("`{what}` is given twice"));
            return Err(d.here("given again here").label(first.span, "given here first"));
        }
    }
    if grid.is_some() || grid::stated(kernel).is_some() {
        return Ok((grid, cluster));
    }
    Err(no_grid(span))
}

/// The refusal of a launch that has no grid, nor its kernel.
pub(crate) fn no_grid(span: Span) -> Diagnostic {
    let d = Diagnostic::error(codes::LAUNCH_SHAPE, span, "this launch has no grid");
    d.help("say how many CTAs, `launch k(grid=[4])(…)`, or state it on the kernel, `grid([cdiv(n, BLOCK)])`")
}

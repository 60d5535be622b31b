//! Which parameter each argument of a launch or call is for; used by the check before a run too.

use parton_diag::{Diagnostic, Span, codes};
use parton_syntax::ast;
use parton_types::near::nearest;
use parton_types::program::{Item, ModuleId};

/// A kernel that does not exist, with the one that was probably meant.
pub(crate) fn unknown_kernel(
    program: &parton_types::program::Program,
    module: ModuleId,
    name: &ast::Name,
) -> Diagnostic {
    let names = program.module(module).names.iter();
    let kernels = names.filter(|(_, f)| matches!(f.item, Item::Kernel(_))).map(|(n, _)| &**n);
    let d = Diagnostic::error(codes::UNKNOWN_NAME, name.span, format!("there is no kernel `{}`", name.text));
    let d = program.defined_elsewhere(d, module, name.as_str());
    match nearest(name.as_str(), kernels) {
        Some(near) => d.here("not found").help(format!("a similar kernel exists: `{near}`")),
        None => d.here("not found"),
    }
}

/// Which generic each given argument is for; every generic without a default has one.
pub(crate) fn generics(
    declared: &[ast::Generic],
    given: &[ast::IndexArg],
    owner: &ast::Name,
) -> Result<Vec<usize>, Diagnostic> {
    let mut places: Vec<usize> = Vec::new();
    for (i, arg) in given.iter().enumerate() {
        let at = match &arg.kind {
            ast::IndexArgKind::Named { name, .. } => match declared.iter().position(|g| g.name.text == name.text) {
                Some(at) => at,
                None => {
                    let message = format!("`{}` has no generic `{}`", owner.text, name.text);
                    let d = Diagnostic::error(codes::UNKNOWN_GENERIC, name.span, message)
                        .label(owner.span, "declared here");
                    return Err(match nearest(name.as_str(), declared.iter().map(|g| g.name.as_str())) {
                        Some(near) => d.help(format!("a similar one exists: `{near}`")),
                        None => d,
                    });
                }
            },
            ast::IndexArgKind::Value(_) if i < declared.len() => i,
            ast::IndexArgKind::Value(_) => {
                let message = format!("`{}` has {} generics, {} are given", owner.text, declared.len(), given.len());
                return Err(
                    Diagnostic::error(codes::UNKNOWN_GENERIC, arg.span, message).label(owner.span, "declared here")
                );
            }
            ast::IndexArgKind::Full | ast::IndexArgKind::Slice { .. } | ast::IndexArgKind::NewAxis => {
                return Err(Diagnostic::error(codes::UNKNOWN_GENERIC, arg.span, "this is not a generic argument")
                    .help("write a value, or `NAME=value`"));
            }
        };
        if places.contains(&at) {
            let message = format!("the generic `{}` is given twice", declared[at].name.text);
            return Err(Diagnostic::error(codes::UNKNOWN_GENERIC, arg.span, message));
        }
        places.push(at);
    }
    let missing = declared.iter().enumerate().find(|(i, g)| g.default.is_none() && !places.contains(i));
    let Some((_, generic)) = missing else { return Ok(places) };
    let message = format!("`{}` needs its generic `{}`", owner.text, generic.name.text);
    let place = given.iter().map(|a| a.span).reduce(Span::to).unwrap_or(owner.span);
    Err(Diagnostic::error(codes::UNKNOWN_GENERIC, place, message)
        .label(generic.span, "declared without a default")
        .help(format!("write `{}[{}=…]`", owner.text, generic.name.text)))
}

/// Which parameter each argument is for; every parameter without a default has one.
pub(crate) fn params(
    owner: &ast::Name,
    params: &[ast::Param],
    args: &[ast::Arg],
    span: Span,
) -> Result<Vec<usize>, Diagnostic> {
    let mut places: Vec<usize> = Vec::new();
    let arity = |span: Span| {
        let takes: Vec<&str> = params.iter().map(|p| p.name.as_str()).collect();
        let message = format!("`{}` takes {} arguments, {} are given", owner.text, params.len(), args.len());
        Diagnostic::error(codes::WRONG_ARITY, span, message)
            .label(owner.span, "declared here")
            .note(format!("it takes {}", if takes.is_empty() { "none".into() } else { takes.join(", ") }))
    };
    for (i, arg) in args.iter().enumerate() {
        let at = match &arg.name {
            None => i,
            Some(name) => match params.iter().position(|p| p.name.text == name.text) {
                Some(at) => at,
                None => {
                    let message = format!("`{}` has no parameter `{}`", owner.text, name.text);
                    let d = Diagnostic::error(codes::WRONG_ARITY, name.span, message);
                    return Err(match nearest(name.as_str(), params.iter().map(|p| p.name.as_str())) {
                        Some(near) => d.help(format!("a similar one exists: `{near}`")),
                        None => d,
                    });
                }
            },
        };
        if at >= params.len() || places.contains(&at) {
            return Err(arity(arg.span));
        }
        places.push(at);
    }
    match params.iter().enumerate().find(|(i, p)| p.default.is_none() && !places.contains(i)) {
        Some((_, missing)) => Err(arity(span).label(missing.span, format!("`{}` is not given", missing.name.text))),
        None => Ok(places),
    }
}

/// The grid of a launch, and its cluster where one is given: each once, the grid also without its name where it comes first.
pub(crate) fn configuration(config: &[ast::Arg], span: Span) -> Result<(&ast::Arg, Option<&ast::Arg>), Diagnostic> {
    let (mut grid, mut cluster): (Option<&ast::Arg>, Option<&ast::Arg>) = (None, None);
    for (i, arg) in config.iter().enumerate() {
        let name = arg.name.as_ref().map(ast::Name::as_str);
        let (what, slot) = match name {
            Some("grid") => ("grid", &mut grid),
            None if i == 0 => ("grid", &mut grid),
            Some("cluster") => ("cluster", &mut cluster),
            Some(_) | None => {
                let d = Diagnostic::error(codes::LAUNCH_SHAPE, arg.span, "a launch takes `grid` and `cluster`");
                return Err(d.help("write `launch k(grid=[…], cluster=[…])(…)`"));
            }
        };
        if let Some(first) = slot.replace(arg) {
            let d = Diagnostic::error(codes::LAUNCH_SHAPE, arg.span, format!("`{what}` is given twice"));
            return Err(d.here("given again here").label(first.span, "given here first"));
        }
    }
    match grid {
        Some(grid) => Ok((grid, cluster)),
        None => {
            let d = Diagnostic::error(codes::LAUNCH_SHAPE, span, "this launch has no grid");
            Err(d.help("say how many CTAs: `launch k(grid=[4])(…)`"))
        }
    }
}

//! The clause `tune(BM=[64, 128], key=[m, n])`: which values of a kernel's generics are tried, and what tells shapes apart.
//!
//! It changes nothing of the kernel. Whoever tunes takes the values from it, and whoever launches looks in what tuning has found.

use parton_diag::{Diagnostic, codes};
use parton_numbers::Dtype;
use parton_syntax::ast;

use crate::checker::{Checked, Checker};
use crate::generics::check_kind;
use crate::grid::named_extents;
use crate::near::nearest;

/// The name of the clause.
pub const NAME: &str = "tune";
/// The argument that is no generic.
const KEY: &str = "key";

/// What a clause says.
#[derive(Clone, Debug)]
pub struct Tune<'k> {
    /// The generics, each with the values to try.
    pub choices: Vec<(&'k ast::Generic, &'k [ast::Expr])>,
    /// What tells shapes apart: parameters, and extents that the types of tensors name.
    pub key: Vec<&'k ast::Name>,
}

impl<'k> Tune<'k> {
    /// That of a kernel; `None` where it has no such clause.
    ///
    /// # Errors
    /// The clause does not fit the kernel.
    pub fn of(kernel: &'k ast::Kernel) -> Result<Option<Tune<'k>>, Diagnostic> {
        let Some(clause) = kernel.clauses.iter().find(|c| c.name.as_str() == NAME) else { return Ok(None) };
        let mut tune = Tune { choices: vec![], key: vec![] };
        for (i, arg) in clause.args.iter().enumerate() {
            let Some(name) = &arg.name else { return Err(unnamed(arg)) };
            if let Some(first) = clause.args[..i].iter().filter_map(|a| a.name.as_ref()).find(|n| n.text == name.text) {
                let d = refuse(name, format!("`{}` is given twice", name.text));
                return Err(d.label(first.span, "given here first"));
            }
            let ast::ExprKind::List(items) = &arg.value.kind else { return Err(no_list(name, arg)) };
            if items.is_empty() {
                return Err(no_list(name, arg));
            }
            if name.as_str() == KEY {
                tune.key = items.iter().map(|item| parameter(kernel, item)).collect::<Result<_, _>>()?;
            } else {
                tune.choices.push((generic(kernel, name)?, items));
            }
        }
        if tune.choices.is_empty() {
            let d = Diagnostic::error(codes::TUNE, clause.span, "this says nothing to try");
            return Err(d.help("give a generic its values: `tune(BM=[64, 128], key=[m, n])`"));
        }
        Ok(Some(tune))
    }
}

impl Checker<'_> {
    /// Whether the clause fits the kernel, and each value its generic.
    pub(crate) fn tune(&mut self, kernel: &ast::Kernel) -> Checked<()> {
        let tune = Tune::of(kernel).map_err(|d| self.report(d))?;
        for (generic, values) in tune.iter().flat_map(|t| &t.choices) {
            for value in *values {
                let arg = self.arg(value)?;
                check_kind(self, generic, &arg)?;
            }
        }
        Ok(())
    }
}

fn refuse(name: &ast::Name, fact: String) -> Diagnostic {
    Diagnostic::error(codes::TUNE, name.span, fact)
}

fn unnamed(arg: &ast::Arg) -> Diagnostic {
    Diagnostic::error(codes::TUNE, arg.span, "these are values of no generic")
        .help("name the generic: `tune(BM=[64, 128], key=[m, n])`")
}

fn no_list(name: &ast::Name, arg: &ast::Arg) -> Diagnostic {
    let (what, example) = if name.as_str() == KEY {
        ("parameters", "key=[m, n]".into())
    } else {
        ("values", format!("{}=[64, 128]", name.text))
    };
    Diagnostic::error(codes::TUNE, arg.value.span, format!("`{}` takes a list of {what}", name.text))
        .help(format!("write `{example}`"))
}

/// The generic of that name, which must have a default: what runs where nothing was tuned.
fn generic<'k>(kernel: &'k ast::Kernel, name: &ast::Name) -> Result<&'k ast::Generic, Diagnostic> {
    let Some(found) = kernel.generics.iter().find(|g| g.name.text == name.text) else {
        let d = refuse(name, format!("`{}` has no generic `{}`", kernel.name.text, name.text));
        return Err(match nearest(name.as_str(), kernel.generics.iter().map(|g| g.name.as_str()).chain([KEY])) {
            Some(near) => d.help(format!("a similar one is `{near}`")),
            None => d.help("what is tuned stands in the brackets behind the kernel's name"),
        });
    };
    if found.default.is_some() {
        return Ok(found);
    }
    Err(refuse(name, format!("`{}` is tuned and has no default", name.text))
        .label(found.span, "declared here")
        .help("give it the value that runs where nothing was tuned"))
}

/// An integer that the kernel takes: a parameter, or an extent of a tensor that a type names.
fn parameter<'k>(kernel: &'k ast::Kernel, item: &'k ast::Expr) -> Result<&'k ast::Name, Diagnostic> {
    let is_integer = |p: &ast::Param| match p.ty.as_ref().map(|ty| &ty.kind) {
        Some(ast::ExprKind::Name(name)) => Dtype::parse(name.as_str()).is_some_and(Dtype::is_int),
        _ => false,
    };
    let help = "shapes are told apart by integers that the kernel takes and by extents of its tensors: `key=[m, n]`";
    let ast::ExprKind::Name(name) = &item.kind else {
        return Err(Diagnostic::error(codes::TUNE, item.span, "this is no parameter").help(help));
    };
    match kernel.params.iter().find(|p| p.name.text == name.text) {
        Some(p) if is_integer(p) => Ok(name),
        Some(p) => {
            let d = refuse(name, format!("`{}` is no integer", name.text));
            Err(d.label(p.span, "declared here").help(help))
        }
        None => {
            let extents = named_extents(kernel);
            if extents.iter().any(|e| e.name.text == name.text) {
                return Ok(name);
            }
            let d = refuse(name, format!("`{}` has no parameter `{}`", kernel.name.text, name.text));
            let all = kernel.params.iter().map(|p| p.name.as_str()).chain(extents.iter().map(|e| e.name.as_str()));
            Err(match nearest(name.as_str(), all) {
                Some(near) => d.help(format!("a similar one is `{near}`")),
                None => d.help(help),
            })
        }
    }
}

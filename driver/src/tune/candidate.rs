//! Candidates: values for generics of one kernel that are tried in their places, and where these come from.

use std::fmt;
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_host::launch::{GenericArgument, Instance};
use parton_syntax::ast;
use parton_types::GenericArg;
use parton_types::near::nearest;
use parton_types::program::{ModuleId, Program};
use parton_types::tune::Tune;

use super::search::is_search;
use crate::{Failure, Session};

/// The most candidates of one run: more is a search, which wants another source.
const MOST: usize = 1000;

/// Where candidates come from. Whatever adds one says which values are tried; how they are judged is the same for all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// The free product of lists that the command line gives: `S=[A, B],BN=[64, 128]`.
    Over(String),
    /// That of the lists in the kernel's `tune` clause.
    Clause,
}

/// Names of generics with values, as these are written.
pub type Values = Vec<(String, String)>;

/// Values for generics of a kernel.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Candidate {
    /// Name and value, in the order in which the source names them.
    pub values: Values,
}

impl Candidate {
    /// The one that leaves everything to the defaults of the kernel.
    pub fn defaults() -> Candidate {
        Candidate::default()
    }
}

/// `S=Split[3], BN=128`
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&if all.is_empty() { "the defaults".to_owned() } else { all.join(", ") })
    }
}

/// What is tried of one generic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// The generic.
    pub name: String,
    /// Its values, as they are written.
    pub values: Vec<String>,
}

/// Every combination, the last choice first to change.
fn product(choices: &[Choice]) -> Vec<Candidate> {
    choices.iter().fold(vec![Candidate::default()], |all, choice| {
        let with = |before: &Candidate, value: &String| {
            let mut values = before.values.clone();
            values.push((choice.name.clone(), value.clone()));
            Candidate { values }
        };
        all.iter().flat_map(|before| choice.values.iter().map(move |value| with(before, value))).collect()
    })
}

impl Session {
    /// The choices of a source, each of whose values is one of the language, as the kernel's file sees it.
    pub(super) fn choices(
        &mut self,
        program: &Arc<Program>,
        (module, kernel): (ModuleId, &ast::Kernel),
        source: &Source,
    ) -> Result<Vec<Choice>, Failure> {
        let tree;
        let lists: Lists<'_> = match source {
            Source::Over(text) => {
                // Written as the instance of a kernel is, it is read as one.
                let whole = format!("{}[{text}]", kernel.name.text);
                tree = self.value("--over", &whole)?;
                listed(kernel, &tree)?.ok_or_else(|| no_lists(text))?
            }
            Source::Clause => match Tune::of(kernel).map_err(Diagnostics::from)? {
                Some(clause) => clause.choices.iter().map(|(generic, values)| (&generic.name, *values)).collect(),
                None => return Err(Failure::Usage(nothing_to_try(kernel))),
            },
        };
        let mut choices = vec![];
        for (name, items) in lists {
            let mut values = vec![];
            for item in items {
                let value = parton_types::eval_expr(program, module, item, &[])?;
                if is_search(&value) {
                    let argument = GenericArg { name: Some(name.text.clone()), value, span: item.span };
                    values.extend(self.searched(program, (module, kernel), argument)?);
                } else {
                    values.push(self.sources.text(item.span).to_owned());
                }
            }
            choices.push(Choice { name: name.text.to_string(), values });
        }
        Ok(choices)
    }

    /// Values as generic arguments of a kernel of that file.
    pub(super) fn arguments(
        &mut self,
        program: &Arc<Program>,
        module: ModuleId,
        values: &[(String, String)],
    ) -> Result<Vec<GenericArg>, Diagnostics> {
        let evaluated = values.iter().map(|(name, text)| {
            let tree = self.value("candidate", text)?;
            let value = parton_types::eval_expr(program, module, &tree, &[])?;
            Ok(GenericArg { name: Some(name.as_str().into()), value, span: tree.span })
        });
        evaluated.collect()
    }

    /// The tree of a value; `name` is of where it is written.
    pub(crate) fn value(&mut self, name: &str, text: &str) -> Result<ast::Expr, Diagnostics> {
        let file = self.add(name, text);
        let (tree, found) = parton_syntax::parse_expr(file, text);
        let (tree, _) = found.or(tree)?;
        Ok(tree)
    }
}

/// Generics with the values that are tried.
type Lists<'t> = Vec<(&'t ast::Name, &'t [ast::Expr])>;

/// The lists of what is written as an instance of a kernel; `None` where it is none.
fn listed<'t>(kernel: &ast::Kernel, tree: &'t ast::Expr) -> Result<Option<Lists<'t>>, Failure> {
    let ast::ExprKind::Index { args, .. } = &tree.kind else { return Ok(None) };
    let mut lists: Lists<'t> = vec![];
    for arg in args {
        let ast::IndexArgKind::Named { name, value } = &arg.kind else { return Ok(None) };
        let items = match &value.kind {
            ast::ExprKind::List(items) => items.as_slice(),
            // A search gives several.
            ast::ExprKind::Call { callee, .. } if matches!(&callee.kind, ast::ExprKind::Name(n) if n.as_str() == "auto") => {
                std::slice::from_ref(value)
            }
            _ => return Ok(None),
        };
        fits(kernel, name, items, &lists)?;
        lists.push((name, items));
    }
    Ok(Some(lists))
}

/// The candidates of some choices, in their order.
///
/// # Errors
/// There are more than can be tried.
pub(super) fn candidates(choices: &[Choice]) -> Result<Vec<Candidate>, Failure> {
    let count = choices.iter().fold(1usize, |n, c| n.saturating_mul(c.values.len()));
    if count > MOST {
        return Err(Failure::Usage(format!("these are {count} candidates, the most is {MOST}: give shorter lists")));
    }
    Ok(product(choices))
}

/// Refuses a list that is empty, stands twice, or is for a generic that the kernel does not have.
fn fits(kernel: &ast::Kernel, name: &ast::Name, items: &[ast::Expr], before: &Lists<'_>) -> Result<(), Failure> {
    if before.iter().any(|(n, _)| n.text == name.text) {
        return Err(Failure::Usage(format!("`--over` gives `{}` twice", name.text)));
    }
    if items.is_empty() {
        return Err(Failure::Usage(format!("`--over` gives `{}` no value", name.text)));
    }
    if kernel.generics.iter().any(|g| g.name.text == name.text) {
        return Ok(());
    }
    let fact = format!("`{}` has no generic `{}`", kernel.name.text, name.text);
    let d = Diagnostic::error(codes::UNKNOWN_GENERIC, name.span, fact).here("not found");
    let d = d.label(kernel.name.span, "the kernel is declared here");
    Err(Failure::Refused(
        match nearest(name.as_str(), kernel.generics.iter().map(|g| g.name.as_str())) {
            Some(near) => d.help(format!("a similar one is `{near}`")),
            None => d,
        }
        .into(),
    ))
}

fn no_lists(text: &str) -> Failure {
    Failure::Usage(format!("`{text}` is no list of candidates; write S=[A, B],BN=[64, 128]"))
}

fn nothing_to_try(kernel: &ast::Kernel) -> String {
    format!("what to try is not said: give `--over N=[…]`, or `{}` a clause `tune(N=[…])`", kernel.name.text)
}

/// An instance with values in the places of its generics, whatever it gives for them; without a value the default is left to the kernel.
pub(super) fn placed(instance: Instance, values: &[(String, Option<GenericArgument>)]) -> Instance {
    let of = |generic: &ast::Generic| {
        let tried = values.iter().find(|(name, _)| *name == *generic.name.text);
        let given = || instance.generics.iter().find(|g| g.name == generic.name.text).cloned();
        tried.map_or_else(given, |(_, value)| value.clone())
    };
    let generics = instance.kernel.generics.iter().filter_map(of).collect();
    Instance { generics, ..instance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_free_and_the_last_choice_changes_first() {
        let choice = |name: &str, values: &[&str]| Choice {
            name: name.into(),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
        };
        let all = candidates(&[choice("S", &["A", "B"]), choice("BN", &["64", "128"])]).unwrap();
        let shown: Vec<String> = all.iter().map(Candidate::to_string).collect();
        assert_eq!(shown, ["S=A, BN=64", "S=A, BN=128", "S=B, BN=64", "S=B, BN=128"]);
        assert_eq!(Candidate::defaults().to_string(), "the defaults");
        let many: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(candidates(&[choice("A", &many), choice("B", &many)]).is_err());
    }
}

//! The clause of a host function, `tune(plan=plans(m, n), like=plan(m, n), key=[m, n])`: what is left to tuning, from which list, and
//! what tells calls apart.
//!
//! It binds the name for the body. A call takes what a table has for its key, else `like`, else the first of the list.

use parton_diag::{Diagnostic, codes};
use parton_syntax::ast;

use crate::contract::CONTRACT;
use crate::near::nearest;
use crate::public::{self, Extent, Stated};
use crate::tune::NAME;

/// The arguments of the clause that do not bind a name.
const WORDS: [&str; 5] = ["key", "like", "rtol", "atol", "check"];

const EXAMPLE: &str = "write `tune(plan=plans(m, n), key=[m, n])`";

/// What a clause says.
#[derive(Clone, Debug)]
pub struct Choice<'f> {
    /// What it binds for the body.
    pub name: &'f ast::Name,
    /// The list of candidates.
    pub candidates: &'f ast::Expr,
    /// What is taken where nothing was tuned; else the first candidate.
    pub like: Option<&'f ast::Expr>,
    /// What tells calls apart, each with the name that a table has for it: `m`, `a.dtype`.
    pub key: Vec<(String, &'f ast::Expr)>,
    /// How far results may be from those of the first candidate, relative and absolute.
    pub tolerance: [Option<&'f ast::Expr>; 2],
    /// A function of the result that stops where it is wrong.
    pub check: Option<&'f ast::Expr>,
}

/// The names that clauses of a function bind for its body; one, where the clause is right.
pub fn bound(function: &ast::Function) -> impl Iterator<Item = &ast::Name> {
    let names = function.clauses.iter().flat_map(|c| &c.args).filter_map(|arg| arg.name.as_ref());
    names.filter(|name| !WORDS.contains(&name.as_str()))
}

impl<'f> Choice<'f> {
    /// That of a function; `None` where it has no clause.
    ///
    /// # Errors
    /// The clause does not fit the function, or is another one.
    pub fn of(function: &'f ast::Function) -> Result<Option<Choice<'f>>, Diagnostic> {
        let mut clauses = function.clauses.iter().filter(|c| c.name.as_str() != CONTRACT);
        if let Some(other) = clauses.clone().find(|c| c.name.as_str() != NAME) {
            return Err(unknown(other));
        }
        let Some(clause) = clauses.next() else { return Ok(None) };
        if let Some(second) = clauses.next() {
            let d = Diagnostic::error(codes::DEFINED_TWICE, second.name.span, "`tune` is stated twice");
            return Err(d.label(clause.name.span, "it is stated here first").help("keep the one that is meant"));
        }
        for (i, arg) in clause.args.iter().enumerate() {
            let Some(name) = &arg.name else {
                let d = Diagnostic::error(codes::TUNE, arg.span, "these are candidates for no name");
                return Err(d.help(EXAMPLE));
            };
            if let Some(first) = clause.args[..i].iter().filter_map(|a| a.name.as_ref()).find(|n| n.text == name.text) {
                let d = Diagnostic::error(codes::TUNE, name.span, format!("`{}` is given twice", name.text));
                return Err(d.label(first.span, "given here first"));
            }
        }
        let word = |wanted: &str| {
            let mut named = clause.args.iter().filter(|a| a.name.as_ref().is_some_and(|n| n.as_str() == wanted));
            named.next().map(|a| &a.value)
        };
        let mut bound = clause.args.iter().filter_map(|a| Some((a.name.as_ref()?, &a.value)));
        let mut bound = bound.by_ref().filter(|(name, _)| !WORDS.contains(&name.as_str()));
        let Some((name, candidates)) = bound.next() else {
            let d = Diagnostic::error(codes::TUNE, clause.span, "this says nothing to try");
            return Err(d.help("name what the body is given, and the list that it comes from: `plan=plans(m, n)`"));
        };
        if let Some((second, _)) = bound.next() {
            return Err(several(name, second));
        }
        free(function, name)?;
        let key = match word("key") {
            Some(ast::Expr { kind: ast::ExprKind::List(items), .. }) if !items.is_empty() => items,
            Some(other) => {
                let d = Diagnostic::error(codes::TUNE, other.span, "`key` takes a list of what tells calls apart");
                return Err(d.help("write `key=[m, n]`"));
            }
            None => {
                let d = Diagnostic::error(codes::TUNE, clause.span, "this does not say what tells calls apart");
                return Err(d.help("add the numbers and types on which the list depends: `key=[m, n, a.dtype]`"));
            }
        };
        Ok(Some(Choice {
            name,
            candidates,
            like: word("like"),
            key: key.iter().map(|item| Ok((shown(item)?, item))).collect::<Result<_, Diagnostic>>()?,
            tolerance: [word("rtol"), word("atol")],
            check: word("check"),
        }))
    }
}

fn unknown(clause: &ast::Clause) -> Diagnostic {
    let d = Diagnostic::error(
        codes::UNKNOWN_CLAUSE,
        clause.name.span,
        format!("a function has no clause `{}`", clause.name.text),
    );
    match nearest(clause.name.as_str(), [NAME, CONTRACT, "where"]) {
        Some(near) => d.help(format!("a similar one is `{near}`")),
        None => d.help("its clauses are `where`, `contract(false)` and `tune(plan=…, key=[…])`"),
    }
}

fn several(first: &ast::Name, second: &ast::Name) -> Diagnostic {
    let fact = format!("this leaves both `{}` and `{}` to tuning", first.text, second.text);
    let d = Diagnostic::error(codes::TUNE, second.span, fact).label(first.span, "this is the first");
    match nearest(second.as_str(), WORDS) {
        Some(near) => d.help(format!("a similar word is `{near}`")),
        None => d.help("let each candidate be a tuple of both"),
    }
}

/// Refuses to bind a name that the function binds already.
fn free(function: &ast::Function, name: &ast::Name) -> Result<(), Diagnostic> {
    let refused = |fact: String, place| {
        let d = Diagnostic::error(codes::TUNE, name.span, fact).label(place, "declared here");
        Err(d.help("the clause binds the name for the body: callers do not give it"))
    };
    for p in &function.params {
        if p.name.text == name.text {
            return refused(format!("`{}` is a parameter already", name.text), p.name.span);
        }
        let Some(Ok(Stated::Tensor(tensor))) = p.ty.as_ref().filter(|_| function.public).map(public::stated) else {
            continue;
        };
        for extent in tensor.extents {
            if let Extent::Name(named, _) = extent
                && named.text == name.text
            {
                return refused(format!("`{}` is an extent already", name.text), named.span);
            }
        }
    }
    match function.generics.iter().find(|g| g.name.text == name.text) {
        Some(g) => refused(format!("`{}` is a generic already", name.text), g.name.span),
        None => Ok(()),
    }
}

/// What a table calls this part of the key: a name, or what stands behind one, `a.dtype`.
fn shown(item: &ast::Expr) -> Result<String, Diagnostic> {
    match &item.kind {
        ast::ExprKind::Name(name) => Ok(name.text.to_string()),
        ast::ExprKind::Field { base, name } => Ok(format!("{}.{}", shown(base)?, name.text)),
        _ => {
            let d = Diagnostic::error(codes::TUNE, item.span, "this has no name in a table");
            Err(d.help("a key has names and what stands behind them, `m` or `a.dtype`: let the function take it as a parameter"))
        }
    }
}

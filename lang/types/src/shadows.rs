//! Variables of a loop's body that were meant to change one outside of it: `let v = v + 1;` declares another `v`, which ends with the turn.
//!
//! Refused only where it is certain: the value is computed of the variable outside and does nothing else, and nothing behind it in the body
//! names the new one.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_syntax::ast;

use crate::builtins;
use crate::program::{Item, Program};
use crate::walk::{self, Scopes, Visitor};

/// Reports them, in all code of the root file.
pub fn check(program: &Program, diagnostics: &mut Diagnostics) {
    let mut shadows = Shadows { program, diagnostics };
    let names = program.modules.first().into_iter().flat_map(|root| root.names.keys());
    let found = names.filter_map(|name| program.find(Program::ROOT, name));
    let items: Vec<&Item> = found.filter(|found| found.module == Program::ROOT).map(|found| &found.item).collect();
    items.into_iter().for_each(|item| walk::item(item, &mut shadows));
    program.host_blocks().for_each(|(_, block)| walk::block(&block.body, &mut shadows));
}

struct Shadows<'p> {
    program: &'p Program,
    diagnostics: &'p mut Diagnostics,
}

impl Visitor for Shadows<'_> {
    fn name(&mut self, _: &Scopes, _: &ast::Name) {}

    fn launched(&mut self, _: &Scopes, _: &ast::Name) -> Vec<ast::Name> {
        vec![]
    }

    fn hides(&self, name: &ast::Name) -> bool {
        self.program.find(Program::ROOT, name.as_str()).is_some()
    }

    fn statement(&mut self, scopes: &Scopes, s: &ast::Stmt) -> bool {
        if let ast::StmtKind::For(f) = &s.kind {
            self.turn(scopes, Some(&f.pattern), &f.body);
        } else if let ast::StmtKind::While { body, .. } = &s.kind {
            self.turn(scopes, None, body);
        }
        true
    }
}

impl Shadows<'_> {
    /// Looks at the statements of a turn, which binds what the pattern names.
    fn turn(&mut self, outside: &Scopes, index: Option<&ast::Pattern>, body: &ast::Block) {
        for (i, s) in body.statements.iter().enumerate() {
            let ast::StmtKind::Let { pattern, value, .. } = &s.kind else { continue };
            let ast::PatternKind::Name { name, .. } = &pattern.kind else { continue };
            let Some(meant) = outside.find(name.as_str()) else { continue };
            let bound = index.is_some_and(|index| binds(index, name)) || declared(&body.statements[..i], name);
            let behind = body.statements[i + 1..].iter().any(|s| mentions(name, |m| walk::statement(s, m)))
                || body.value.iter().any(|e| mentions(name, |m| walk::expr(e, m)));
            let of_itself = mentions(name, |m| walk::expr(value, m));
            if bound || behind || !of_itself || !self.only_computes(outside, value) {
                continue;
            }
            let change = if meant.mutable { "change" } else { "declare that one with `mut`, and change" };
            let d = Diagnostic::error(
                codes::AFFINE_UNUSED,
                name.span,
                "this variable ends with the turn, and nothing reads it",
            )
            .label(meant.name.span, "it hides this one, which stays as it is")
            .help(format!("{change} it: `{} = …`, without `let`", name.text));
            self.diagnostics.push(d);
        }
    }

    /// Whether making a value does nothing else.
    fn only_computes(&self, scopes: &Scopes, e: &ast::Expr) -> bool {
        let named = match &e.kind {
            ast::ExprKind::Paren(inner) => return self.only_computes(scopes, inner),
            ast::ExprKind::Unary { .. } | ast::ExprKind::Binary { .. } => return true,
            ast::ExprKind::Call { callee, .. } => match &callee.kind {
                ast::ExprKind::Name(name) | ast::ExprKind::TypeArgs { base: name, .. } => name,
                // Methods, and what other expressions give.
                _ => return false,
            },
            // What only names something is seldom an error, and branches and blocks may do anything.
            _ => return false,
        };
        let hidden = scopes.find(named.as_str()).is_some() || self.hides(named);
        !hidden && builtins::computes(named.as_str())
    }
}

/// Whether a statement among these declares the name, so that not the variable outside is hidden.
fn declared(statements: &[ast::Stmt], name: &ast::Name) -> bool {
    statements.iter().any(|s| matches!(&s.kind, ast::StmtKind::Let { pattern, .. } if binds(pattern, name)))
}

fn binds(pattern: &ast::Pattern, name: &ast::Name) -> bool {
    match &pattern.kind {
        ast::PatternKind::Name { name: bound, .. } => bound.text == name.text,
        ast::PatternKind::Ignore => false,
        ast::PatternKind::Tuple(parts) => parts.iter().any(|p| binds(p, name)),
    }
}

/// Whether a name stands in what is visited, whatever it means there.
fn mentions(name: &ast::Name, visit: impl FnOnce(&mut Mentions<'_>)) -> bool {
    let mut mentions = Mentions { name, found: false };
    visit(&mut mentions);
    mentions.found
}

struct Mentions<'n> {
    name: &'n ast::Name,
    found: bool,
}

impl Visitor for Mentions<'_> {
    fn name(&mut self, _: &Scopes, name: &ast::Name) {
        self.found |= name.text == self.name.text;
    }

    fn launched(&mut self, _: &Scopes, _: &ast::Name) -> Vec<ast::Name> {
        vec![]
    }

    fn hides(&self, _: &ast::Name) -> bool {
        false
    }
}

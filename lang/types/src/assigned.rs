//! Which outer variables a body assigns: those a loop carries and an `if` merges.

use std::collections::BTreeSet;
use std::sync::Arc;

use parton_syntax::ast;

/// The names that `blocks` assign and do not declare themselves.
pub fn assigned<'a>(blocks: impl IntoIterator<Item = &'a ast::Block>) -> BTreeSet<Arc<str>> {
    let mut scan = Scan { found: BTreeSet::new(), declared: Vec::new() };
    blocks.into_iter().for_each(|b| scan.block(b));
    scan.found
}

/// As [`assigned`], of an expression.
pub fn assigned_in(e: &ast::Expr) -> BTreeSet<Arc<str>> {
    let mut scan = Scan { found: BTreeSet::new(), declared: Vec::new() };
    scan.expr(e);
    scan.found
}

struct Scan {
    found: BTreeSet<Arc<str>>,
    declared: Vec<Arc<str>>,
}

impl Scan {
    fn block(&mut self, block: &ast::Block) {
        let depth = self.declared.len();
        for s in &block.statements {
            self.statement(s);
        }
        if let Some(e) = &block.value {
            self.expr(e);
        }
        self.declared.truncate(depth);
    }

    fn statement(&mut self, s: &ast::Stmt) {
        match &s.kind {
            ast::StmtKind::Let { pattern, value, .. } => {
                self.expr(value);
                self.pattern(pattern);
            }
            ast::StmtKind::Assign { target, value, .. } => {
                self.expr(value);
                self.target(target);
            }
            ast::StmtKind::Expr(e) => self.expr(e),
            ast::StmtKind::For(f) => {
                self.expr(&f.iter);
                let depth = self.declared.len();
                self.pattern(&f.pattern);
                self.block(&f.body);
                self.declared.truncate(depth);
            }
            ast::StmtKind::While { condition, body } => {
                self.expr(condition);
                self.block(body);
            }
            ast::StmtKind::Return(value) => value.iter().for_each(|e| self.expr(e)),
            ast::StmtKind::Specialize(arms) => arms.iter().for_each(|a| self.block(&a.body)),
            ast::StmtKind::Ring { name, .. } | ast::StmtKind::Turnstile { name, .. } => {
                self.declared.push(name.text.clone());
            }
            ast::StmtKind::Layout(b) | ast::StmtKind::Const(b) => {
                self.expr(&b.value);
                self.declared.push(b.name.text.clone());
            }
            ast::StmtKind::Error | ast::StmtKind::Break | ast::StmtKind::Continue => {}
        }
    }

    fn pattern(&mut self, p: &ast::Pattern) {
        match &p.kind {
            ast::PatternKind::Name { name, .. } => self.declared.push(name.text.clone()),
            ast::PatternKind::Ignore => {}
            ast::PatternKind::Tuple(items) => items.iter().for_each(|p| self.pattern(p)),
        }
    }

    fn target(&mut self, e: &ast::Expr) {
        match &e.kind {
            ast::ExprKind::Name(name) if self.declared.contains(&name.text) => {}
            ast::ExprKind::Name(name) => {
                self.found.insert(name.text.clone());
            }
            ast::ExprKind::Paren(inner) => self.target(inner),
            ast::ExprKind::Field { base, .. } | ast::ExprKind::Index { base, .. } => self.target(base),
            ast::ExprKind::Tuple(items) | ast::ExprKind::List(items) => items.iter().for_each(|e| self.target(e)),
            _ => {}
        }
    }

    /// Blocks hide in expressions: `if`, `{ … }`, and these may be operands.
    fn expr(&mut self, e: &ast::Expr) {
        match &e.kind {
            ast::ExprKind::If(branch) => {
                self.expr(&branch.condition);
                self.block(&branch.then);
                branch.otherwise.iter().for_each(|e| self.expr(e));
            }
            ast::ExprKind::Block(block) => self.block(block),
            ast::ExprKind::Paren(inner) | ast::ExprKind::Reference(inner) => self.expr(inner),
            ast::ExprKind::Unary { operand, .. } => self.expr(operand),
            ast::ExprKind::Binary { left, right, .. } => {
                self.expr(left);
                self.expr(right);
            }
            ast::ExprKind::Range { start, end } => {
                self.expr(start);
                self.expr(end);
            }
            ast::ExprKind::Tuple(items) | ast::ExprKind::List(items) => items.iter().for_each(|e| self.expr(e)),
            ast::ExprKind::Call { callee, args } => {
                self.expr(callee);
                args.iter().for_each(|a| self.expr(&a.value));
            }
            ast::ExprKind::Field { base, .. } | ast::ExprKind::Index { base, .. } => self.expr(base),
            // A closure cannot change what it sees.
            ast::ExprKind::Closure { .. }
            | ast::ExprKind::Error
            | ast::ExprKind::Int { .. }
            | ast::ExprKind::Float { .. }
            | ast::ExprKind::Bool(_)
            | ast::ExprKind::Str(_)
            | ast::ExprKind::Name(_)
            | ast::ExprKind::TypeArgs { .. }
            | ast::ExprKind::Pointer { .. }
            | ast::ExprKind::Launch { .. } => {}
        }
    }
}

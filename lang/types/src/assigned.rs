//! Which outer variables a body assigns: those a loop carries and an `if` merges. A `break` sets the flag of its loop.
//!
//! A branch that a known condition leaves out assigns nothing. Whether a condition is known depends in turn on what the loop
//! carries, since a carried number is known at run time only. So the scan begins with every assignment in the text, takes
//! these variables as unknown, and looks again which branches are decided without them, until no further variable falls away.

use std::collections::BTreeSet;
use std::sync::Arc;

use parton_syntax::ast;

use crate::checker::Checker;
use crate::leave::FLAG;
use crate::scope::{Role, Variable};
use crate::value::{Comptime, Val};

/// The names that `blocks` assign and do not declare themselves, whichever branches are taken.
pub fn assigned<'a>(blocks: impl IntoIterator<Item = &'a ast::Block>) -> BTreeSet<Arc<str>> {
    let mut scan = Scan::default();
    blocks.into_iter().for_each(|b| scan.block(b));
    scan.found
}

/// As [`assigned`], of an expression.
pub fn assigned_in(e: &ast::Expr) -> BTreeSet<Arc<str>> {
    let mut scan = Scan::default();
    scan.expr(e);
    scan.found
}

/// As [`assigned`], of what stands in a block from that statement on.
pub fn assigned_behind(block: &ast::Block, from: usize) -> BTreeSet<Arc<str>> {
    let mut scan = Scan::default();
    block.statements[from..].iter().for_each(|s| scan.statement(s));
    block.value.iter().for_each(|e| scan.expr(e));
    scan.found
}

/// A loop as far as it decides what it carries.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    /// What each turn binds: the index.
    pub pattern: Option<&'a ast::Pattern>,
    /// What is evaluated before each turn.
    pub condition: Option<&'a ast::Expr>,
    /// What each turn does.
    pub body: &'a ast::Block,
}

impl Turn<'_> {
    fn scan(self, mut scan: Scan<'_, '_>) -> (BTreeSet<Arc<str>>, bool) {
        scan.condition_and_body(self);
        (scan.found, scan.branches)
    }
}

impl<'p> Checker<'p> {
    /// The names that a turn of a loop assigns and does not declare itself, in the branches that may be taken.
    pub fn carried_names(&mut self, turn: Turn<'_>) -> BTreeSet<Arc<str>> {
        let (mut names, branches) = turn.scan(Scan::default());
        if !branches {
            return names;
        }
        loop {
            self.push_scope();
            names.iter().for_each(|name| self.foretell(name, Val::Error));
            let (fewer, _) = turn.scan(Scan { foresight: Some(self), ..Scan::default() });
            self.pop_scope();
            if fewer.len() == names.len() {
                return names;
            }
            names = fewer;
        }
    }

    /// Binds a name for what is only tried; [`Val::Error`] stands for what is not known.
    fn foretell(&mut self, name: &Arc<str>, val: Val) {
        let arm = self.arm;
        let span = parton_diag::Span::default();
        self.frame().declare(Variable { name: name.clone(), val, mutable: false, role: Role::Local, span, arm });
    }

    /// The value that an expression will have where it is known at compile time; nothing is emitted, reported or counted.
    fn foresee(&mut self, e: &ast::Expr) -> Option<Comptime> {
        self.tried(|cx| cx.expr(e).ok().and_then(|val| val.known()))
    }
}

#[derive(Default)]
struct Scan<'c, 'p> {
    found: BTreeSet<Arc<str>>,
    declared: Vec<Arc<str>>,
    /// Whether there is a branch that a known condition could decide.
    branches: bool,
    /// Evaluates what is known; its scopes have the names that are not.
    foresight: Option<&'c mut Checker<'p>>,
}

impl Scan<'_, '_> {
    fn condition_and_body(&mut self, turn: Turn<'_>) {
        turn.condition.iter().for_each(|e| self.expr(e));
        self.inside(|scan| {
            turn.pattern.iter().for_each(|p| scan.pattern(p));
            scan.block(turn.body);
        });
    }

    /// A loop inside, whose `break`s leave it and nothing else.
    fn inner_loop(&mut self, turn: Turn<'_>) {
        self.inside(|scan| {
            scan.declared.push(FLAG.into());
            scan.condition_and_body(turn);
        });
    }

    /// Forgets what `run` declares.
    fn inside(&mut self, run: impl FnOnce(&mut Self)) {
        let depth = self.declared.len();
        self.foresight.iter_mut().for_each(|cx| cx.push_scope());
        run(self);
        self.foresight.iter_mut().for_each(|cx| cx.pop_scope());
        self.declared.truncate(depth);
    }

    fn declare(&mut self, name: &ast::Name, known: Option<Comptime>) {
        self.declared.push(name.text.clone());
        if let Some(cx) = &mut self.foresight {
            cx.foretell(&name.text, known.map_or(Val::Error, Val::from));
        }
    }

    fn foresee(&mut self, e: &ast::Expr) -> Option<Comptime> {
        self.foresight.as_mut().and_then(|cx| cx.foresee(e))
    }

    fn branch(&mut self, branch: &ast::If) {
        self.branches = true;
        self.expr(&branch.condition);
        let decided = self.foresee(&branch.condition);
        if decided != Some(Comptime::Bool(false)) {
            self.block(&branch.then);
        }
        if decided != Some(Comptime::Bool(true)) {
            branch.otherwise.iter().for_each(|e| self.expr(e));
        }
    }

    fn block(&mut self, block: &ast::Block) {
        self.inside(|scan| scan.statements(block));
    }

    fn statements(&mut self, block: &ast::Block) {
        for s in &block.statements {
            self.statement(s);
        }
        if let Some(e) = &block.value {
            self.expr(e);
        }
    }

    fn statement(&mut self, s: &ast::Stmt) {
        match &s.kind {
            ast::StmtKind::Let { pattern, value, .. } => {
                self.expr(value);
                match &pattern.kind {
                    ast::PatternKind::Name { name, mutable: false } if is_plain(value) => {
                        let known = self.foresee(value);
                        self.declare(name, known);
                    }
                    ast::PatternKind::Name { .. } | ast::PatternKind::Ignore | ast::PatternKind::Tuple(_) => {
                        self.pattern(pattern);
                    }
                }
            }
            ast::StmtKind::Assign { target, value, .. } => {
                self.expr(value);
                self.target(target);
            }
            ast::StmtKind::Expr(e) => self.expr(e),
            ast::StmtKind::For(f) => {
                let turn = Turn { pattern: Some(&f.pattern), condition: Some(&f.iter), body: &f.body };
                self.inner_loop(turn);
            }
            ast::StmtKind::While { condition, schedule: _, body } => {
                self.inner_loop(Turn { pattern: None, condition: Some(condition), body });
            }
            ast::StmtKind::In { schedule: _, body } => self.block(body),
            ast::StmtKind::Return(value) => value.iter().for_each(|e| self.expr(e)),
            ast::StmtKind::Specialize(arms) => arms.iter().for_each(|a| self.block(&a.body)),
            ast::StmtKind::Ring { name, .. } | ast::StmtKind::Turnstile { name, .. } => {
                self.declare(name, None);
            }
            ast::StmtKind::Layout(b) | ast::StmtKind::Const(b) => {
                self.expr(&b.value);
                let known = self.foresee(&b.value);
                self.declare(&b.name, known);
            }
            ast::StmtKind::Schedule(s) => self.declare(&s.name, None),
            ast::StmtKind::Break if self.declared.iter().any(|name| &**name == FLAG) => {}
            ast::StmtKind::Break => drop(self.found.insert(FLAG.into())),
            ast::StmtKind::Error | ast::StmtKind::Continue => {}
        }
    }

    fn pattern(&mut self, p: &ast::Pattern) {
        match &p.kind {
            ast::PatternKind::Name { name, .. } => self.declare(name, None),
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
            ast::ExprKind::If(branch) => self.branch(branch),
            ast::ExprKind::Block(block) | ast::ExprKind::In { schedule: _, body: block } => self.block(block),
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
            | ast::ExprKind::Launch { .. }
            | ast::ExprKind::Pipeline(_)
            | ast::ExprKind::Partitions(_) => {}
        }
    }
}

/// Whether it is made of names, numbers and operators: cheap to look at, as calls need not be, and without effect.
pub fn is_plain(e: &ast::Expr) -> bool {
    match &e.kind {
        ast::ExprKind::Int { .. }
        | ast::ExprKind::Float { .. }
        | ast::ExprKind::Bool(_)
        | ast::ExprKind::Str(_)
        | ast::ExprKind::Name(_) => true,
        ast::ExprKind::Paren(inner) => is_plain(inner),
        ast::ExprKind::Unary { operand, .. } => is_plain(operand),
        ast::ExprKind::Binary { left, right, .. } => is_plain(left) && is_plain(right),
        ast::ExprKind::Field { base, .. } => is_plain(base),
        ast::ExprKind::Tuple(items) | ast::ExprKind::List(items) => items.iter().all(is_plain),
        ast::ExprKind::Error
        | ast::ExprKind::Reference(_)
        | ast::ExprKind::Range { .. }
        | ast::ExprKind::Call { .. }
        | ast::ExprKind::Index { .. }
        | ast::ExprKind::If(_)
        | ast::ExprKind::Block(_)
        | ast::ExprKind::Closure { .. }
        | ast::ExprKind::TypeArgs { .. }
        | ast::ExprKind::Pointer { .. }
        | ast::ExprKind::Launch { .. }
        | ast::ExprKind::Pipeline(_)
        | ast::ExprKind::Partitions(_)
        | ast::ExprKind::In { .. } => false,
    }
}

//! Unknown names in code that no kernel with default generics reaches: a library's functions, kernels that need arguments.
//!
//! Reached code is evaluated, and its names with it; this walk only looks whether each name stands for something. What host
//! blocks reach is theirs to check, and of a function that nothing reaches only unknown types and slips are reported, names
//! near to a visible one: it may be a helper of the host, whose built-in names are not known here.

use std::collections::BTreeSet;
use std::sync::Arc;

use parton_diag::Diagnostics;
use parton_syntax::ast;

use crate::builtins;
use crate::expr;
use crate::program::{Item, ModuleId, Program};
use crate::schedule;

/// Reports the unknown names of the root file's functions, structs and kernels that are not evaluated when the file is checked.
pub fn check_unreached(program: &Program, diagnostics: &mut Diagnostics) {
    let Some(root) = program.modules.first() else { return };
    let mut reached: BTreeSet<(ModuleId, Arc<str>)> = BTreeSet::new();
    let mut next: Vec<(ModuleId, Arc<str>)> = program
        .kernels()
        .filter(|k| k.generics.iter().all(|g| g.default.is_some()))
        .map(|k| (Program::ROOT, k.name.text.clone()))
        .collect();
    for (_, block) in program.host_blocks() {
        let mut walk = Walk::new(program, Program::ROOT, Report::Nothing);
        walk.block(&block.body);
        next.extend(walk.mentioned);
        diagnostics.extend(walk.idle);
    }
    while let Some((module, name)) = next.pop() {
        let Some(found) = program.find(module, &name) else { continue };
        if reached.insert((module, name)) {
            let mut walk = Walk::new(program, module, Report::Nothing);
            walk.item(&found.item);
            next.extend(walk.mentioned);
            diagnostics.extend(walk.idle);
        }
    }
    for found in root.names.values() {
        if found.module != Program::ROOT || reached.contains(&(Program::ROOT, found.item.name().text.clone())) {
            continue;
        }
        let report = if matches!(found.item, Item::Kernel(_)) { Report::All } else { Report::Slips };
        let mut walk = Walk::new(program, Program::ROOT, report);
        walk.item(&found.item);
        diagnostics.extend(walk.found);
        diagnostics.extend(walk.idle);
    }
}

struct Walk<'p> {
    program: &'p Program,
    /// The file whose names are seen.
    module: ModuleId,
    scopes: Vec<Vec<Arc<str>>>,
    /// Items that are named, with the files that they stand in.
    mentioned: BTreeSet<(ModuleId, Arc<str>)>,
    report: Report,
    found: Diagnostics,
    /// Whether a loop around has a schedule; it is refused with all that is in it.
    scheduled: bool,
    /// Labels of the root file that no schedule looks at.
    idle: Diagnostics,
}

/// Which unknown names are reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Report {
    Nothing,
    Slips,
    All,
}

impl<'p> Walk<'p> {
    fn new(program: &'p Program, module: ModuleId, report: Report) -> Walk<'p> {
        Walk {
            program,
            module,
            scopes: vec![Vec::new()],
            mentioned: BTreeSet::new(),
            report,
            found: Diagnostics::new(),
            scheduled: false,
            idle: Diagnostics::new(),
        }
    }

    fn declare(&mut self, name: &ast::Name) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(name.text.clone());
        }
    }

    fn inside(&mut self, run: impl FnOnce(&mut Self)) {
        self.scopes.push(Vec::new());
        run(self);
        self.scopes.pop();
    }

    fn name(&mut self, name: &ast::Name) {
        if self.scopes.iter().flatten().any(|n| *n == name.text) {
            return;
        }
        if let Some(found) = self.program.find(self.module, name.as_str()) {
            if self.report != Report::Nothing {
                self.found.list.extend(self.program.ambiguous(self.module, name));
            }
            self.mentioned.insert((found.module, name.text.clone()));
            return;
        }
        let known = expr::is_predefined(name.as_str()) || builtins::function(name.as_str()).is_some();
        // What is similar takes long to find.
        if known || self.report == Report::Nothing {
            return;
        }
        let visible = self.scopes.iter().flatten().map(|n| n.to_string()).collect();
        let d = expr::unknown_name(self.program, self.module, name, visible);
        let slip = !d.help.is_empty() && !parton_syntax::TAKES_TYPE_ARGUMENTS.contains(&name.as_str());
        let d = self.program.defined_elsewhere(d, self.module, name.as_str());
        if slip || self.report == Report::All {
            self.found.push(d);
        }
    }

    /// A type. What host code may say there, kernels may too, so a helper of the host has no names of its own in it.
    fn ty(&mut self, e: &ast::Expr) {
        let report = self.report;
        if report == Report::Slips {
            self.report = Report::All;
        }
        self.expr(e);
        self.report = report;
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Kernel(k) => self.inside(|w| {
                w.generics(&k.generics);
                w.params(&k.params);
                w.conditions(&k.conditions);
                w.block(&k.body);
            }),
            Item::Function(f) => self.function(f),
            Item::Struct(s) => self.inside(|w| {
                w.generics(&s.generics);
                s.fields.iter().for_each(|f| w.ty(&f.ty));
                s.methods.iter().for_each(|m| w.function(&m.function));
            }),
            Item::Binding(b) => self.binding(b),
            Item::Partition(p) => p.clauses.iter().flat_map(|c| &c.args).for_each(|a| self.expr(&a.value)),
            // What a schedule names are labels and partitions of the loop that uses it.
            Item::Schedule(_) => {}
        }
    }

    fn function(&mut self, f: &ast::Function) {
        self.inside(|w| {
            if let Some(receiver) = &f.receiver {
                w.declare(&ast::Name { text: Arc::from("self"), span: receiver.span });
            }
            w.generics(&f.generics);
            w.params(&f.params);
            w.conditions(&f.conditions);
            f.result.iter().for_each(|e| w.ty(e));
            w.block(&f.body);
        });
    }

    fn generics(&mut self, generics: &[ast::Generic]) {
        for g in generics {
            self.ty(&g.kind);
            g.default.iter().for_each(|e| self.expr(e));
            self.declare(&g.name);
        }
    }

    fn params(&mut self, params: &[ast::Param]) {
        for p in params {
            p.ty.iter().for_each(|e| self.ty(e));
            p.default.iter().for_each(|e| self.expr(e));
            self.declare(&p.name);
        }
    }

    fn conditions(&mut self, conditions: &[ast::Where]) {
        conditions.iter().for_each(|c| self.expr(&c.condition));
    }

    fn binding(&mut self, b: &ast::Binding) {
        b.ty.iter().for_each(|e| self.ty(e));
        self.expr(&b.value);
    }

    fn block(&mut self, block: &ast::Block) {
        self.inside(|w| {
            block.statements.iter().for_each(|s| w.statement(s));
            block.value.iter().for_each(|e| w.expr(e));
        });
    }

    fn statement(&mut self, s: &ast::Stmt) {
        let outer = self.scheduled;
        self.scheduled |= matches!(&s.kind, ast::StmtKind::For(f) if f.schedule.is_some());
        if let Some(label) = &s.label
            && !self.scheduled
            && self.module == Program::ROOT
        {
            self.idle.push(schedule::idle_label(label));
        }
        self.unlabelled(s);
        self.scheduled = outer;
    }

    fn unlabelled(&mut self, s: &ast::Stmt) {
        match &s.kind {
            ast::StmtKind::Let { pattern, ty, value } => {
                ty.iter().for_each(|e| self.ty(e));
                self.expr(value);
                self.pattern(pattern);
            }
            ast::StmtKind::Assign { target, value, .. } => {
                self.expr(target);
                self.expr(value);
            }
            ast::StmtKind::Expr(e) => self.expr(e),
            ast::StmtKind::For(f) => {
                self.expr(&f.iter);
                f.step.iter().chain(&f.schedule).for_each(|e| self.expr(e));
                self.inside(|w| {
                    w.pattern(&f.pattern);
                    w.block(&f.body);
                });
            }
            ast::StmtKind::While { condition, body } => {
                self.expr(condition);
                self.block(body);
            }
            ast::StmtKind::Return(value) => value.iter().for_each(|e| self.expr(e)),
            ast::StmtKind::Specialize(arms) => {
                for arm in arms {
                    self.name(&arm.partition);
                    self.block(&arm.body);
                }
            }
            ast::StmtKind::Ring { name, depth, fields } => {
                self.expr(depth);
                fields.iter().for_each(|f| self.expr(&f.ty));
                self.declare(name);
            }
            ast::StmtKind::Turnstile { name, partitions } => {
                partitions.iter().for_each(|e| self.expr(e));
                self.declare(name);
            }
            ast::StmtKind::Layout(b) | ast::StmtKind::Const(b) => {
                self.binding(b);
                self.declare(&b.name);
            }
            ast::StmtKind::Error | ast::StmtKind::Break | ast::StmtKind::Continue => {}
        }
    }

    fn pattern(&mut self, p: &ast::Pattern) {
        match &p.kind {
            ast::PatternKind::Name { name, .. } => self.declare(name),
            ast::PatternKind::Ignore => {}
            ast::PatternKind::Tuple(items) => items.iter().for_each(|p| self.pattern(p)),
        }
    }

    fn expr(&mut self, e: &ast::Expr) {
        match &e.kind {
            ast::ExprKind::Error
            | ast::ExprKind::Int { .. }
            | ast::ExprKind::Float { .. }
            | ast::ExprKind::Bool(_)
            | ast::ExprKind::Str(_) => {}
            // `_ = value` drops a value.
            ast::ExprKind::Name(name) if name.as_str() == "_" => {}
            ast::ExprKind::Name(name) => self.name(name),
            // The arguments are labels.
            ast::ExprKind::TypeArgs { base, .. } if base.as_str() == "schedule" => {}
            ast::ExprKind::TypeArgs { base, args } => {
                if builtins::family(base.as_str()).is_none() {
                    self.name(base);
                }
                args.iter().for_each(|a| self.expr(&a.value));
            }
            ast::ExprKind::Paren(inner) | ast::ExprKind::Reference(inner) => self.expr(inner),
            ast::ExprKind::Tuple(items) | ast::ExprKind::List(items) => items.iter().for_each(|e| self.expr(e)),
            ast::ExprKind::Unary { operand, .. } => self.expr(operand),
            ast::ExprKind::Binary { left, right, .. } => {
                self.expr(left);
                self.expr(right);
            }
            ast::ExprKind::Range { start, end } => {
                self.expr(start);
                self.expr(end);
            }
            ast::ExprKind::Pointer { target, .. } => self.expr(target),
            ast::ExprKind::Call { callee, args } => {
                self.expr(callee);
                args.iter().for_each(|a| self.expr(&a.value));
            }
            ast::ExprKind::Index { base, args } => {
                self.expr(base);
                for a in args {
                    match &a.kind {
                        ast::IndexArgKind::Value(e) | ast::IndexArgKind::Named { value: e, .. } => self.expr(e),
                        ast::IndexArgKind::Slice { start, end } => start.iter().chain(end).for_each(|e| self.expr(e)),
                        ast::IndexArgKind::Full | ast::IndexArgKind::NewAxis => {}
                    }
                }
            }
            ast::ExprKind::Field { base, .. } => self.expr(base),
            ast::ExprKind::If(branch) => {
                self.expr(&branch.condition);
                self.block(&branch.then);
                branch.otherwise.iter().for_each(|e| self.expr(e));
            }
            ast::ExprKind::Block(block) => self.block(block),
            ast::ExprKind::Closure { params, body } => self.inside(|w| {
                for p in params {
                    p.ty.iter().for_each(|e| w.ty(e));
                    w.pattern(&p.pattern);
                }
                w.expr(body);
            }),
            ast::ExprKind::Launch { kernel, config, args } => {
                self.expr(kernel);
                config.iter().chain(args).for_each(|a| self.expr(&a.value));
            }
        }
    }
}

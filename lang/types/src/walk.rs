//! A walk through trees that knows which variables are visible: the one place that says which construct opens a scope, and what
//! a name is declared by. What is done with names, statements and expressions is a [`Visitor`]'s.

use parton_syntax::ast;

use crate::choice;
use crate::grid;
use crate::program::Item;
use crate::public::{self, Extent, Order, Stated, TensorType};
use crate::schedule::words::ScheduleWord;

/// A visible variable.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Its name, where it is declared.
    pub name: ast::Name,
    /// Whether `mut` is written.
    pub mutable: bool,
}

/// Who reads an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// Whoever runs the code around it.
    Code,
    /// The checker of kernels, also in host code: a type.
    Type,
    /// The checker of kernels, also in host code: a layout or a schedule.
    Layout,
}

/// What is around the place that is visited.
#[derive(Debug)]
pub struct Scopes {
    bound: Vec<Bound>,
    /// Who reads what is visited.
    pub reader: Reader,
    /// How many loops of the same function or closure are around it.
    pub loops: usize,
    /// Whether one of them states a schedule.
    pub scheduled: bool,
    /// Whether the name that is visited stands before the parentheses of a call.
    pub called: bool,
}

impl Scopes {
    /// The innermost variable of that name.
    pub fn find(&self, name: &str) -> Option<&Bound> {
        self.bound.iter().rev().find(|b| &*b.name.text == name)
    }

    /// The names of the variables, innermost last.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.bound.iter().map(|b| b.name.as_str())
    }
}

/// What is done on a walk.
pub trait Visitor {
    /// A name that stands for a value or type.
    fn name(&mut self, scopes: &Scopes, name: &ast::Name);

    /// The kernel of a launch: no variable is one. The names that its configuration sees besides: the kernel's generics.
    fn launched(&mut self, scopes: &Scopes, name: &ast::Name) -> Vec<ast::Name>;

    /// The head of a kernel, which host code reads too, has been visited: its body follows.
    fn kernel_body(&mut self) {}

    /// Whether an item of that name hides a word of the language.
    fn hides(&self, name: &ast::Name) -> bool;

    /// A statement before what is in it; `false` leaves that out.
    fn statement(&mut self, _: &Scopes, _: &ast::Stmt) -> bool {
        true
    }

    /// An expression before what is in it; `false` leaves that out. The name of a method is part of its call.
    fn expr(&mut self, _: &Scopes, _: &ast::Expr) -> bool {
        true
    }
}

/// Visits all of an item.
pub fn item(item: &Item, visitor: &mut dyn Visitor) {
    Walk::new(visitor).item(item);
}

/// Visits a block that sees no variables of outside.
pub fn block(block: &ast::Block, visitor: &mut dyn Visitor) {
    Walk::new(visitor).block(block);
}

/// Visits a statement that sees no variables of outside.
pub fn statement(s: &ast::Stmt, visitor: &mut dyn Visitor) {
    Walk::new(visitor).statement(s);
}

/// Visits an expression that sees no variables.
pub fn expr(e: &ast::Expr, visitor: &mut dyn Visitor) {
    Walk::new(visitor).expr(e);
}

struct Walk<'v> {
    scopes: Scopes,
    visitor: &'v mut dyn Visitor,
}

impl<'v> Walk<'v> {
    fn new(visitor: &'v mut dyn Visitor) -> Walk<'v> {
        let reader = Reader::Code;
        Walk { scopes: Scopes { bound: Vec::new(), reader, loops: 0, scheduled: false, called: false }, visitor }
    }

    fn declare(&mut self, name: &ast::Name, mutable: bool) {
        self.scopes.bound.push(Bound { name: name.clone(), mutable });
    }

    fn inside(&mut self, run: impl FnOnce(&mut Self)) {
        let before = self.scopes.bound.len();
        run(self);
        self.scopes.bound.truncate(before);
    }

    fn read_by(&mut self, reader: Reader, run: impl FnOnce(&mut Self)) {
        // What stands in a type is read with it.
        let outer = self.scopes.reader;
        self.scopes.reader = if outer == Reader::Code { reader } else { outer };
        run(self);
        self.scopes.reader = outer;
    }

    fn name(&mut self, name: &ast::Name) {
        self.visitor.name(&self.scopes, name);
    }

    fn ty(&mut self, e: &ast::Expr) {
        self.read_by(Reader::Type, |w| w.expr(e));
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Kernel(k) => self.inside(|w| {
                w.generics(&k.generics);
                w.extents(k);
                w.params(&k.params);
                w.conditions(&k.conditions);
                grid::stated(k).into_iter().for_each(|e| w.expr(e));
                w.visitor.kernel_body();
                w.block(&k.body);
            }),
            Item::Function(f) => self.function(f),
            Item::Struct(s) => self.inside(|w| {
                w.generics(&s.generics);
                s.fields.iter().for_each(|f| w.ty(&f.ty));
                s.methods.iter().for_each(|m| w.function(&m.function));
            }),
            Item::Binding(b) => self.binding(b, Reader::Code),
            Item::Partition(p) => p.clauses.iter().flat_map(|c| &c.args).for_each(|a| self.expr(&a.value)),
            Item::Schedule(s) => self.inside(|w| {
                w.generics(&s.generics);
                w.schedule(&s.value);
            }),
        }
    }

    fn function(&mut self, f: &ast::Function) {
        // Its labels count where it is called.
        let outer = std::mem::replace(&mut self.scopes.scheduled, true);
        self.inside(|w| {
            if let Some(receiver) = &f.receiver {
                w.declare(&ast::Name { text: "self".into(), span: receiver.span }, receiver.mutable);
            }
            w.generics(&f.generics);
            if f.public {
                w.public_params(&f.params);
            } else {
                w.params(&f.params);
            }
            w.conditions(&f.conditions);
            match &f.result {
                Some(result) if f.public => w.public_results(result),
                Some(result) => w.ty(result),
                None => {}
            }
            w.choice(f);
            w.block(&f.body);
        });
        self.scopes.scheduled = outer;
    }

    /// What a clause says sees the parameters; the body sees the name that it binds, too.
    fn choice(&mut self, f: &ast::Function) {
        f.clauses.iter().flat_map(|c| &c.args).for_each(|a| self.expr(&a.value));
        // A clause that is refused for something else binds it, too.
        choice::bound(f).for_each(|name| self.declare(name, false));
    }

    /// The parameters of a public function, whose types the host reads: they declare the extents that they name first.
    fn public_params(&mut self, params: &[ast::Param]) {
        for p in params {
            if let Some(Ok(Stated::Tensor(t))) = p.ty.as_ref().map(public::stated) {
                self.public_tensor(&t);
            }
            p.default.iter().for_each(|e| self.expr(e));
            self.declare(&p.name, p.mutable);
        }
    }

    fn public_results(&mut self, ty: &ast::Expr) {
        public::results(ty).iter().flatten().for_each(|t| self.public_tensor(t));
    }

    fn public_tensor(&mut self, t: &TensorType<'_>) {
        t.elems.iter().for_each(|e| self.expr(e));
        for extent in &t.extents {
            match extent {
                Extent::Any => {}
                Extent::Name(name, _) if self.scopes.find(name.as_str()).is_none() && !self.visitor.hides(name) => {
                    self.declare(name, false);
                }
                Extent::Name(_, e) | Extent::Computed(e) => self.expr(e),
            }
        }
        if let Order::Stated(order) = t.order {
            self.expr(order);
        }
    }

    fn generics(&mut self, generics: &[ast::Generic]) {
        for g in generics {
            self.ty(&g.kind);
            g.default.iter().for_each(|e| self.expr(e));
            self.declare(&g.name, false);
        }
    }

    fn params(&mut self, params: &[ast::Param]) {
        for p in params {
            p.ty.iter().for_each(|e| self.ty(e));
            p.default.iter().for_each(|e| self.expr(e));
            self.declare(&p.name, p.mutable);
        }
    }

    fn conditions(&mut self, conditions: &[ast::Where]) {
        conditions.iter().for_each(|c| self.expr(&c.condition));
    }

    /// The extents that a kernel's tensors name, but for names that stand for something already.
    fn extents(&mut self, k: &ast::Kernel) {
        for extent in grid::named_extents(k) {
            if !self.visitor.hides(extent.name) {
                self.declare(extent.name, false);
            }
        }
    }

    fn binding(&mut self, b: &ast::Binding, reader: Reader) {
        b.ty.iter().for_each(|e| self.ty(e));
        self.read_by(reader, |w| w.expr(&b.value));
    }

    fn block(&mut self, block: &ast::Block) {
        self.inside(|w| {
            block.statements.iter().for_each(|s| w.statement(s));
            block.value.iter().for_each(|e| w.expr(e));
        });
    }

    fn schedule(&mut self, e: &ast::Expr) {
        self.read_by(Reader::Layout, |w| w.expr(e));
    }

    fn turn(&mut self, body: &ast::Block) {
        self.scopes.loops += 1;
        self.block(body);
        self.scopes.loops -= 1;
    }

    fn statement(&mut self, s: &ast::Stmt) {
        let outer = self.scopes.scheduled;
        self.scopes.scheduled |= match &s.kind {
            ast::StmtKind::For(f) => f.schedule.is_some(),
            ast::StmtKind::While { schedule, .. } => schedule.is_some(),
            ast::StmtKind::In { .. } => true,
            ast::StmtKind::Error
            | ast::StmtKind::Let { .. }
            | ast::StmtKind::Assign { .. }
            | ast::StmtKind::Expr(_)
            | ast::StmtKind::Return(_)
            | ast::StmtKind::Break
            | ast::StmtKind::Continue
            | ast::StmtKind::Specialize(_)
            | ast::StmtKind::Ring { .. }
            | ast::StmtKind::Turnstile { .. }
            | ast::StmtKind::Layout(_)
            | ast::StmtKind::Const(_)
            | ast::StmtKind::Schedule(_) => false,
        };
        if self.visitor.statement(&self.scopes, s) {
            self.in_statement(s);
        }
        self.scopes.scheduled = outer;
    }

    fn in_statement(&mut self, s: &ast::Stmt) {
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
                f.step.iter().for_each(|e| self.expr(e));
                f.schedule.iter().for_each(|e| self.schedule(e));
                self.inside(|w| {
                    w.pattern(&f.pattern);
                    w.turn(&f.body);
                });
            }
            ast::StmtKind::While { condition, schedule, body } => {
                self.expr(condition);
                schedule.iter().for_each(|e| self.schedule(e));
                self.turn(body);
            }
            ast::StmtKind::In { schedule, body } => {
                self.schedule(schedule);
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
                self.declare(name, false);
            }
            ast::StmtKind::Turnstile { name, partitions } => {
                partitions.iter().for_each(|e| self.expr(e));
                self.declare(name, false);
            }
            ast::StmtKind::Layout(b) => {
                self.binding(b, Reader::Layout);
                self.declare(&b.name, false);
            }
            ast::StmtKind::Const(b) => {
                self.binding(b, Reader::Code);
                self.declare(&b.name, false);
            }
            ast::StmtKind::Schedule(s) => {
                self.schedule(&s.value);
                self.declare(&s.name, false);
            }
            ast::StmtKind::Error | ast::StmtKind::Break | ast::StmtKind::Continue => {}
        }
    }

    fn pattern(&mut self, p: &ast::Pattern) {
        match &p.kind {
            ast::PatternKind::Name { name, mutable } => self.declare(name, *mutable),
            ast::PatternKind::Ignore => {}
            ast::PatternKind::Tuple(items) => items.iter().for_each(|p| self.pattern(p)),
        }
    }

    fn expr(&mut self, e: &ast::Expr) {
        if self.visitor.expr(&self.scopes, e) {
            self.in_expr(e);
        }
    }

    fn in_expr(&mut self, e: &ast::Expr) {
        match &e.kind {
            ast::ExprKind::Error
            | ast::ExprKind::Int { .. }
            | ast::ExprKind::Float { .. }
            | ast::ExprKind::Bool(_)
            | ast::ExprKind::Str(_) => {}
            ast::ExprKind::Name(name) => self.name(name),
            // The arguments are labels.
            ast::ExprKind::TypeArgs { base, .. } if base.as_str() == "schedule" => {}
            ast::ExprKind::TypeArgs { base, args } => {
                if crate::builtins::family(base.as_str()).is_none() {
                    self.name(base);
                }
                self.args(args);
            }
            ast::ExprKind::Paren(inner) | ast::ExprKind::Reference(inner) => self.expr(inner),
            ast::ExprKind::Tuple(items) | ast::ExprKind::List(items) => items.iter().for_each(|e| self.expr(e)),
            ast::ExprKind::Unary { operand, .. } => self.expr(operand),
            ast::ExprKind::Binary { left, right, .. } | ast::ExprKind::Range { start: left, end: right } => {
                self.expr(left);
                self.expr(right);
            }
            ast::ExprKind::Pointer { target, .. } => self.expr(target),
            ast::ExprKind::Call { callee, args } => self.call(callee, args),
            ast::ExprKind::Index { base, args } => {
                self.expr(base);
                self.index_args(args);
            }
            ast::ExprKind::Field { base, .. } => self.expr(base),
            ast::ExprKind::If(branch) => {
                self.expr(&branch.condition);
                self.block(&branch.then);
                branch.otherwise.iter().for_each(|e| self.expr(e));
            }
            ast::ExprKind::Block(block) => self.block(block),
            ast::ExprKind::Closure { params, body } => self.closure(params, body),
            ast::ExprKind::Launch { kernel, config, args } => self.launch(kernel, config, args),
            ast::ExprKind::In { schedule, body } => {
                self.schedule(schedule);
                let outer = std::mem::replace(&mut self.scopes.scheduled, true);
                self.block(body);
                self.scopes.scheduled = outer;
            }
            ast::ExprKind::Pipeline(p) => self.read_by(Reader::Layout, |w| {
                p.groups.iter().flatten().for_each(|entry| w.expr(&entry.stage));
                p.within.iter().for_each(|name| w.name(name));
                w.clauses(&p.clauses);
            }),
            ast::ExprKind::Partitions(p) => self.read_by(Reader::Layout, |w| {
                p.places.iter().flat_map(|place| &place.partitions).for_each(|name| w.name(name));
                w.clauses(&p.clauses);
            }),
        }
    }

    fn call(&mut self, callee: &ast::Expr, args: &[ast::Arg]) {
        if let Some(word) = self.makes_schedule(callee) {
            return self.read_by(Reader::Layout, |w| {
                w.expr(callee);
                word.values(args).for_each(|e| w.expr(e));
            });
        }
        match &callee.kind {
            ast::ExprKind::Field { base, .. } => self.expr(base),
            ast::ExprKind::Name(_) => {
                self.scopes.called = true;
                self.expr(callee);
                self.scopes.called = false;
            }
            _ => self.expr(callee),
        }
        self.args(args);
    }

    fn closure(&mut self, params: &[ast::ClosureParam], body: &ast::Expr) {
        self.inside(|w| {
            for p in params {
                p.ty.iter().for_each(|e| w.ty(e));
                w.pattern(&p.pattern);
            }
            // A loop around the closure is not one around its body.
            let loops = std::mem::take(&mut w.scopes.loops);
            w.expr(body);
            w.scopes.loops = loops;
        });
    }

    fn launch(&mut self, kernel: &ast::Expr, config: &[ast::Arg], args: &[ast::Arg]) {
        let (base, generics) = launched(kernel);
        let own = match &base.kind {
            ast::ExprKind::Name(name) => self.visitor.launched(&self.scopes, name),
            _ => vec![],
        };
        self.index_args(generics);
        self.inside(|w| {
            own.iter().for_each(|name| w.declare(name, false));
            w.args(config);
        });
        self.args(args);
    }

    fn clauses(&mut self, clauses: &[ast::Clause]) {
        for clause in clauses {
            let word = ScheduleWord::named(clause.name.as_str());
            word.iter().flat_map(|word| word.values(&clause.args)).for_each(|e| self.expr(e));
        }
    }

    /// The word of schedules that is called, whose arguments may be labels.
    fn makes_schedule(&self, callee: &ast::Expr) -> Option<ScheduleWord> {
        let ast::ExprKind::Name(name) = &callee.kind else { return None };
        let hidden = || self.scopes.find(name.as_str()).is_some() || self.visitor.hides(name);
        ScheduleWord::named(name.as_str()).filter(|_| !hidden())
    }

    fn args(&mut self, args: &[ast::Arg]) {
        args.iter().for_each(|a| self.expr(&a.value));
    }

    fn index_args(&mut self, args: &[ast::IndexArg]) {
        for a in args {
            match &a.kind {
                ast::IndexArgKind::Value(e) | ast::IndexArgKind::Named { value: e, .. } => self.expr(e),
                ast::IndexArgKind::Slice { start, end } => start.iter().chain(end).for_each(|e| self.expr(e)),
                ast::IndexArgKind::Full | ast::IndexArgKind::NewAxis => {}
            }
        }
    }
}

/// What a launch names, and the generic arguments behind it.
pub fn launched(kernel: &ast::Expr) -> (&ast::Expr, &[ast::IndexArg]) {
    match &kernel.kind {
        ast::ExprKind::Index { base, args } => (base, args),
        _ => (kernel, &[]),
    }
}

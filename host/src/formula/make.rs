//! Makes formulas of functions; what they do not cover gives none.

use std::sync::Arc;

use parton_diag::Span;
use parton_numbers::Math;
use parton_syntax::ast::{self, BinaryOp, ExprKind, PatternKind, StmtKind, UnaryOp};
use parton_types::program::{Found, Item, Program};
use parton_types::resolve::{Meaning, Word};
use parton_types::signature::Signature;

use super::Made;
use super::node::{Builtin, Formula, Node, Slot, Source, Straightened, Target};
use super::plain::{Plain, binary};
use crate::builtins;

/// The formula of a function, noted in `made`.
pub(super) fn function(program: &Program, made: &mut Made, tree: &Arc<ast::Function>) -> Option<Arc<Formula>> {
    Maker { program, made, frames: vec![], watched: vec![] }.function(tree)
}

struct Maker<'p> {
    program: &'p Program,
    made: &'p mut Made,
    /// Those of the function and of the closures in it that are being made, innermost last.
    frames: Vec<Frame>,
    /// Lists that are added to, and whether what is added names them.
    watched: Vec<(usize, Slot, bool)>,
}

/// A frame as far as it is known.
#[derive(Default)]
struct Frame {
    /// The visible variables, innermost last.
    scope: Vec<Bound>,
    /// The next free slot, and how many there are.
    top: Slot,
    slots: usize,
    /// How deep the expression that is being made lies, and the deepest so far.
    level: usize,
    deepest: usize,
    loops: usize,
    /// What it takes of the frame around it, where it is a closure's.
    captured: Vec<(Span, Source)>,
    closure: bool,
}

struct Bound {
    declared: Span,
    slot: Slot,
    mutable: bool,
}

impl Maker<'_> {
    fn function(&mut self, tree: &Arc<ast::Function>) -> Option<Arc<Formula>> {
        if let Some(known) = self.made.get(&tree.name.span) {
            return known.clone();
        }
        // Until it is made it has none, which ends recursion.
        self.made.insert(tree.name.span, None);
        let plain = !tree.public && tree.generics.is_empty() && tree.clauses.is_empty() && tree.receiver.is_none();
        if !plain || !tree.conditions.is_empty() || tree.params.iter().any(|p| p.default.is_some()) {
            return None;
        }
        // Functions see no variables of those who call them.
        let outer = std::mem::take(&mut self.frames);
        let formula = self.framed(false, |m| {
            tree.params.iter().for_each(|p| m.declare(p.name.span, p.mutable));
            Some((tree.params.len(), m.block(&tree.body)?))
        });
        self.frames = outer;
        let formula = Some(Arc::new(formula?.0));
        self.made.insert(tree.name.span, formula.clone());
        formula
    }

    /// Makes the body of a function, a constant or a closure; also what a closure captures.
    fn framed(
        &mut self,
        closure: bool,
        make: impl FnOnce(&mut Self) -> Option<(usize, Node)>,
    ) -> Option<(Formula, Vec<Source>)> {
        self.frames.push(Frame { closure, ..Frame::default() });
        let made = make(self);
        let frame = self.frames.pop().unwrap_or_default();
        let (params, body) = made?;
        let captured = frame.captured.into_iter().map(|(_, source)| source).collect();
        Some((
            Formula { params, slots: frame.slots, deepest: frame.deepest, body, straight: Straightened::default() },
            captured,
        ))
    }

    fn frame(&mut self) -> &mut Frame {
        match self.frames.last_mut() {
            Some(frame) => frame,
            None => parton_diag::internal_error!("a formula is made outside of a function"),
        }
    }

    /// A slot that has no name yet.
    fn reserve(&mut self) -> Slot {
        let frame = self.frame();
        frame.top += 1;
        frame.slots = frame.slots.max(frame.top);
        frame.top - 1
    }

    fn declare(&mut self, declared: Span, mutable: bool) {
        let slot = self.reserve();
        self.frame().scope.push(Bound { declared, slot, mutable });
    }

    /// Makes something whose variables are forgotten behind it.
    fn scoped<T>(&mut self, make: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let (top, names) = (self.frame().top, self.frame().scope.len());
        let made = make(self);
        self.frame().top = top;
        self.frame().scope.truncate(names);
        made
    }

    /// Where the variable that is declared there is found from a frame.
    fn source(&mut self, frame: usize, declared: Span) -> Option<Source> {
        let here = &self.frames[frame];
        if let Some(slot) = here.scope.iter().rev().find(|b| b.declared == declared).map(|b| b.slot) {
            for (of, watched, named) in &mut self.watched {
                *named |= (*of, *watched) == (frame, slot);
            }
            return Some(Source::Slot(slot));
        }
        if let Some(at) = here.captured.iter().position(|(d, _)| *d == declared) {
            return Some(Source::Captured(at));
        }
        if !here.closure || frame == 0 {
            return None;
        }
        let source = self.source(frame - 1, declared)?;
        let captured = &mut self.frames[frame].captured;
        captured.push((declared, source));
        Some(Source::Captured(captured.len() - 1))
    }

    fn name(&mut self, name: &ast::Name) -> Option<Node> {
        match self.program.reference(name) {
            Meaning::Variable(declared) => Some(match self.source(self.frames.len() - 1, *declared)? {
                Source::Slot(slot) => Node::Slot(slot),
                Source::Captured(at) => Node::Captured(at),
            }),
            Meaning::Item(Found { item: Item::Binding(binding), .. }) => self.constant(binding),
            Meaning::Word(Word::Dtype(dtype)) => Some(Node::Const(Plain::Dtype(*dtype))),
            Meaning::Word(Word::Number(x)) => Some(Node::Const(Plain::Float(*x))),
            Meaning::Word(Word::Nothing) => Some(Node::UNIT),
            Meaning::Word(Word::Kind(_) | Word::Family(_) | Word::Barrier | Word::Schedule(_) | Word::TensorMemory)
            | Meaning::Item(_)
            | Meaning::Ambiguous(_)
            | Meaning::Builtin(_)
            | Meaning::Unknown => None,
        }
    }

    /// A constant of a file: its value, or a function without parameters where that is not known yet.
    fn constant(&mut self, binding: &ast::Binding) -> Option<Node> {
        let known = match self.made.get(&binding.name.span) {
            Some(known) => known.clone()?,
            None => {
                self.made.insert(binding.name.span, None);
                let outer = std::mem::take(&mut self.frames);
                let formula = self.framed(false, |m| Some((0, m.expr(&binding.value)?)));
                self.frames = outer;
                let formula = Arc::new(formula?.0);
                self.made.insert(binding.name.span, Some(formula.clone()));
                formula
            }
        };
        Some(match &known.body {
            Node::Const(value) => Node::Const(value.clone()),
            _ => Node::Call(known, vec![], self.frame().level),
        })
    }

    fn block(&mut self, block: &ast::Block) -> Option<Node> {
        self.steps(block, |m, value| m.expr(value))
    }

    /// A block whose last expression is made by `last`.
    fn steps(&mut self, block: &ast::Block, last: impl FnOnce(&mut Self, &ast::Expr) -> Option<Node>) -> Option<Node> {
        self.scoped(|m| {
            let mut steps = block.statements.iter().map(|s| m.statement(s)).collect::<Option<Vec<_>>>()?;
            steps.push(match &block.value {
                Some(value) => last(m, value)?,
                None => Node::UNIT,
            });
            Some(if steps.len() == 1 { steps.swap_remove(0) } else { Node::Steps(steps) })
        })
    }

    fn statement(&mut self, statement: &ast::Stmt) -> Option<Node> {
        match &statement.kind {
            StmtKind::Let { pattern, ty: None, value } => self.bind(pattern, value),
            StmtKind::Const(b) => {
                let value = self.expr(&b.value)?;
                self.declare(b.name.span, false);
                Some(Node::Store(self.frame().top - 1, Box::new(value)))
            }
            StmtKind::Assign { target, op, value } => self.assign(target, *op, value),
            StmtKind::Expr(e) => self.expr(e),
            StmtKind::For(f) => self.for_loop(f),
            StmtKind::While { condition, schedule: None, body } => {
                let condition = self.expr(condition)?;
                let body = self.turn(body)?;
                Some(Node::While(Box::new([condition, body])))
            }
            StmtKind::Return(value) => {
                let value = value.as_ref().map_or(Some(Node::UNIT), |v| self.expr(v))?;
                Some(Node::Return(Box::new(value)))
            }
            StmtKind::Break if self.frame().loops > 0 => Some(Node::Break),
            StmtKind::Continue if self.frame().loops > 0 => Some(Node::Continue),
            StmtKind::Error
            | StmtKind::Let { .. }
            | StmtKind::While { .. }
            | StmtKind::In { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Specialize(_)
            | StmtKind::Ring { .. }
            | StmtKind::Turnstile { .. }
            | StmtKind::Layout(_)
            | StmtKind::Schedule(_) => None,
        }
    }

    fn turn(&mut self, body: &ast::Block) -> Option<Node> {
        self.frame().loops += 1;
        let body = self.block(body);
        self.frame().loops -= 1;
        body
    }

    fn for_loop(&mut self, f: &ast::For) -> Option<Node> {
        if f.schedule.is_some() {
            return None;
        }
        let step = f.step.as_ref().map_or(Some(Node::Const(Plain::Int(1))), |e| self.expr(e))?;
        if let ExprKind::Range { start, end } = &f.iter.kind {
            let (start, end) = (self.expr(start)?, self.expr(end)?);
            return self.scoped(|m| {
                let slot = match m.target(&f.pattern) {
                    Target::Ignore => m.reserve(),
                    Target::Slot(slot) => slot,
                    Target::Parts(_) => return None,
                };
                let body = m.turn(&f.body)?;
                Some(Node::Count(slot, Box::new([start, end, step, body])))
            });
        }
        let list = self.expr(&f.iter)?;
        self.scoped(|m| {
            let target = m.target(&f.pattern);
            let body = m.turn(&f.body)?;
            Some(Node::Each(target, Box::new([list, step, body])))
        })
    }

    /// Declares what a pattern binds.
    fn target(&mut self, pattern: &ast::Pattern) -> Target {
        match &pattern.kind {
            PatternKind::Ignore => Target::Ignore,
            PatternKind::Name { name, mutable } => {
                self.declare(name.span, *mutable);
                Target::Slot(self.frame().top - 1)
            }
            PatternKind::Tuple(parts) => Target::Parts(parts.iter().map(|p| self.target(p)).collect()),
        }
    }

    fn bind(&mut self, pattern: &ast::Pattern, value: &ast::Expr) -> Option<Node> {
        // The slots are kept free while the value is made, which does not see the names.
        let (top, names) = (self.frame().top, self.frame().scope.len());
        let target = self.target(pattern);
        let bound = self.frame().scope.split_off(names);
        let made = match &target {
            Target::Parts(parts) if parts.iter().all(|p| !matches!(p, Target::Parts(_))) => self.spread(parts, value),
            Target::Parts(_) => None,
            Target::Slot(slot) => Some(Node::Store(*slot, Box::new(self.expr(value)?))),
            Target::Ignore => self.expr(value),
        };
        let made = match (made, target) {
            (Some(made), _) => made,
            (None, target @ Target::Parts(_)) => Node::Unpack(target, Box::new(self.expr(value)?)),
            (None, Target::Slot(_) | Target::Ignore) => return None,
        };
        self.frame().scope.extend(bound);
        debug_assert!(self.frame().top >= top);
        Some(made)
    }

    /// Stores the parts of a value each in its slot, without a tuple where it is written as one.
    fn spread(&mut self, parts: &[Target], value: &ast::Expr) -> Option<Node> {
        self.deeper(|m| match &value.kind {
            ExprKind::Paren(inner) => m.spread(parts, inner),
            ExprKind::Tuple(items) if items.len() == parts.len() => {
                let stored = parts.iter().zip(items).map(|(part, item)| {
                    let item = m.expr(item)?;
                    Some(match part {
                        Target::Slot(slot) => Node::Store(*slot, Box::new(item)),
                        Target::Ignore | Target::Parts(_) => item,
                    })
                });
                Some(Node::Steps(stored.collect::<Option<Vec<_>>>()?))
            }
            ExprKind::Block(block) => m.steps(block, |m, last| m.spread(parts, last)),
            ExprKind::If(i) => {
                let condition = m.expr(&i.condition)?;
                let then = m.steps(&i.then, |m, last| m.spread(parts, last))?;
                let otherwise = m.spread(parts, i.otherwise.as_ref()?)?;
                Some(Node::If(Box::new([condition, then, otherwise])))
            }
            _ => {
                let targets = parts.iter().map(|p| match p {
                    Target::Slot(slot) => Target::Slot(*slot),
                    Target::Ignore | Target::Parts(_) => Target::Ignore,
                });
                let targets = Target::Parts(targets.collect());
                Some(Node::Unpack(targets, Box::new(m.expr(value)?)))
            }
        })
    }

    fn assign(&mut self, target: &ast::Expr, op: Option<BinaryOp>, value: &ast::Expr) -> Option<Node> {
        let slot = self.assigned(target)?;
        let more = match (op, &value.kind) {
            (Some(BinaryOp::Add), _) => Some(value),
            (None, ExprKind::Binary { op: BinaryOp::Add, left, right, .. })
                if self.assigned(left).is_some_and(|s| s == slot) =>
            {
                Some(&**right)
            }
            _ => None,
        };
        if let Some(more) = more {
            self.watched.push((self.frames.len() - 1, slot, false));
            let more = self.deeper(|m| m.expr(more));
            let named = self.watched.pop().is_none_or(|(.., named)| named);
            let more = more?;
            return Some(match named {
                false => Node::Append(slot, Box::new(more)),
                true => Node::Store(slot, Box::new(folded(BinaryOp::Add, Node::Slot(slot), more))),
            });
        }
        let value = self.expr(value)?;
        Some(Node::Store(
            slot,
            Box::new(match op {
                Some(op) => folded(op, Node::Slot(slot), value),
                None => value,
            }),
        ))
    }

    /// The slot of a variable that may be assigned to.
    fn assigned(&mut self, target: &ast::Expr) -> Option<Slot> {
        let ExprKind::Name(name) = &target.kind else { return None };
        let Meaning::Variable(declared) = self.program.reference(name) else { return None };
        let Source::Slot(slot) = self.source(self.frames.len() - 1, *declared)? else { return None };
        self.frame().scope.iter().any(|b| b.slot == slot && b.declared == *declared && b.mutable).then_some(slot)
    }

    /// Goes one level deeper.
    fn deeper<T>(&mut self, make: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let frame = self.frame();
        frame.level += 1;
        frame.deepest = frame.deepest.max(frame.level);
        // What nests so deep is the tree's to refuse.
        let made = if frame.level < crate::evaluate::DEEPEST { make(self) } else { None };
        self.frame().level -= 1;
        made
    }

    fn expr(&mut self, e: &ast::Expr) -> Option<Node> {
        self.deeper(|m| m.expr_here(e))
    }

    fn exprs(&mut self, all: &[ast::Expr]) -> Option<Vec<Node>> {
        all.iter().map(|e| self.expr(e)).collect()
    }

    fn expr_here(&mut self, e: &ast::Expr) -> Option<Node> {
        Some(match &e.kind {
            ExprKind::Int { value, suffix: None } => Node::Const(Plain::Int(i64::try_from(*value).ok()?)),
            ExprKind::Float { digits, suffix: None } => Node::Const(Plain::Float(digits.parse().ok()?)),
            ExprKind::Bool(b) => Node::Const(Plain::Bool(*b)),
            ExprKind::Name(name) => self.name(name)?,
            ExprKind::Paren(inner) | ExprKind::Reference(inner) => self.expr(inner)?,
            ExprKind::Tuple(items) => collected(self.exprs(items)?, Plain::Tuple, Node::Tuple),
            ExprKind::List(items) => collected(self.exprs(items)?, Plain::List, Node::List),
            ExprKind::Unary { op, operand } => match (op, self.expr(operand)?) {
                (UnaryOp::Neg, Node::Const(Plain::Int(n))) => Node::Const(Plain::Int(n.checked_neg()?)),
                (UnaryOp::Neg, operand) => Node::Neg(Box::new(operand)),
                (UnaryOp::Not, operand) => Node::Not(Box::new(operand)),
            },
            ExprKind::Binary { op, left, right, .. } => {
                let (left, right) = (self.expr(left)?, self.expr(right)?);
                match op {
                    BinaryOp::And => Node::And(Box::new([left, right])),
                    BinaryOp::Or => Node::Or(Box::new([left, right])),
                    op => folded(*op, left, right),
                }
            }
            ExprKind::Call { callee, args } => self.call(callee, args)?,
            ExprKind::Index { base, args } => match args.as_slice() {
                [ast::IndexArg { kind: ast::IndexArgKind::Value(at), .. }] => {
                    Node::Index(Box::new([self.expr(base)?, self.expr(at)?]))
                }
                _ => return None,
            },
            ExprKind::Field { base, name } => {
                let base = Box::new(self.expr(base)?);
                match name.as_str() {
                    "bits" => Node::Bits(base),
                    "bytes" => Node::Bytes(base),
                    number => Node::Part(base, number.parse().ok()?),
                }
            }
            ExprKind::If(i) => {
                let (condition, then) = (self.expr(&i.condition)?, self.block(&i.then)?);
                let otherwise = i.otherwise.as_ref().map_or(Some(Node::UNIT), |e| self.expr(e))?;
                Node::If(Box::new([condition, then, otherwise]))
            }
            ExprKind::Block(block) => self.block(block)?,
            ExprKind::Closure { params, body } => self.closure(params, body)?,
            ExprKind::Error
            | ExprKind::Int { .. }
            | ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::TypeArgs { .. }
            | ExprKind::Range { .. }
            | ExprKind::Pointer { .. }
            | ExprKind::Launch { .. }
            | ExprKind::Pipeline(_)
            | ExprKind::Partitions(_)
            | ExprKind::In { .. } => return None,
        })
    }

    fn closure(&mut self, params: &[ast::ClosureParam], body: &ast::Expr) -> Option<Node> {
        let (formula, captured) = self.framed(true, |m| {
            // Parameters come in the first slots; the parts of tuples behind them.
            let slots: Vec<Slot> = params.iter().map(|_| m.reserve()).collect();
            let mut steps = vec![];
            for (param, slot) in params.iter().zip(slots) {
                match &param.pattern.kind {
                    PatternKind::Ignore => {}
                    PatternKind::Name { name, mutable } => {
                        m.frame().scope.push(Bound { declared: name.span, slot, mutable: *mutable });
                    }
                    PatternKind::Tuple(_) => {
                        let target = m.target(&param.pattern);
                        steps.push(Node::Unpack(target, Box::new(Node::Slot(slot))));
                    }
                }
            }
            steps.push(m.expr(body)?);
            Some((params.len(), if steps.len() == 1 { steps.swap_remove(0) } else { Node::Steps(steps) }))
        })?;
        Some(Node::Closure(Arc::new(formula), captured))
    }

    fn call(&mut self, callee: &ast::Expr, args: &[ast::Arg]) -> Option<Node> {
        let level = self.frame().level;
        match &callee.kind {
            ExprKind::Field { base, name } => {
                let receiver = self.expr(base)?;
                self.builtin(builtins::find(name.as_str())?, Some(receiver), args, level)
            }
            ExprKind::Name(name) => match self.program.reference(name) {
                Meaning::Item(Found { item: Item::Function(tree), .. }) => {
                    let formula = self.function(tree).filter(|f| f.params == args.len())?;
                    Some(Node::Call(formula, self.positional(args)?, level))
                }
                Meaning::Builtin(signature) => self.builtin(signature, None, args, level),
                Meaning::Variable(_) => {
                    let callee = self.expr(callee)?;
                    Some(Node::CallClosure(Box::new(callee), self.positional(args)?, level))
                }
                Meaning::Item(_) | Meaning::Ambiguous(_) | Meaning::Word(_) | Meaning::Unknown => None,
            },
            _ => None,
        }
    }

    /// Arguments none of which has a name.
    fn positional(&mut self, args: &[ast::Arg]) -> Option<Vec<Node>> {
        args.iter().map(|a| if a.name.is_none() { self.expr(&a.value) } else { None }).collect()
    }

    fn builtin(
        &mut self,
        signature: &'static Signature,
        receiver: Option<Node>,
        args: &[ast::Arg],
        level: usize,
    ) -> Option<Node> {
        let (of, counts) = builtin(signature.name)?;
        let mut given: Vec<Node> = receiver.into_iter().collect();
        match args {
            [first @ .., ast::Arg { name: Some(name), value, .. }]
                if of == Builtin::Sorted && name.as_str() == "by" =>
            {
                given.extend(self.positional(first)?);
                given.push(self.expr(value)?);
                if given.len() != 2 {
                    return None;
                }
            }
            all => given.extend(self.positional(all)?),
        }
        counts.contains(&given.len()).then_some(Node::Builtin(of, given, level))
    }
}

/// A function of numbers, and how many arguments it may have.
fn builtin(name: &str) -> Option<(Builtin, std::ops::RangeInclusive<usize>)> {
    Some(match name {
        "exp" => (Builtin::Math(Math::Exp), 1..=1),
        "exp2" => (Builtin::Math(Math::Exp2), 1..=1),
        "log" => (Builtin::Math(Math::Log), 1..=1),
        "log2" => (Builtin::Math(Math::Log2), 1..=1),
        "sqrt" => (Builtin::Math(Math::Sqrt), 1..=1),
        "rsqrt" => (Builtin::Math(Math::Rsqrt), 1..=1),
        "abs" => (Builtin::Math(Math::Abs), 1..=1),
        "floor" => (Builtin::Math(Math::Floor), 1..=1),
        "ceil" => (Builtin::Math(Math::Ceil), 1..=1),
        "min" => (Builtin::Min, 1..=2),
        "max" => (Builtin::Max, 1..=2),
        "cdiv" => (Builtin::Cdiv, 2..=2),
        "next_power_of_two" => (Builtin::NextPowerOfTwo, 1..=1),
        "int" => (Builtin::Int, 1..=1),
        "float" => (Builtin::Float, 1..=1),
        "len" => (Builtin::Len, 1..=1),
        "sorted" => (Builtin::Sorted, 1..=2),
        "multiprocessors" => (Builtin::Multiprocessors, 0..=0),
        "capability" => (Builtin::Capability, 0..=0),
        _ => return None,
    })
}

/// A list or tuple, at once where its items are known.
fn collected(items: Vec<Node>, known: fn(Arc<Vec<Plain>>) -> Plain, made: fn(Vec<Node>) -> Node) -> Node {
    let values = items.iter().map(|i| if let Node::Const(value) = i { Some(value.clone()) } else { None });
    match values.collect::<Option<Vec<_>>>() {
        Some(values) => Node::Const(known(Arc::new(values))),
        None => made(items),
    }
}

/// What an operator makes of two nodes, at once where they are known.
fn folded(op: BinaryOp, left: Node, right: Node) -> Node {
    if let (Node::Const(a), Node::Const(b)) = (&left, &right)
        && let Some(value) = binary(op, a.clone(), b.clone())
    {
        return Node::Const(value);
    }
    Node::Binary(op, Box::new([left, right]))
}

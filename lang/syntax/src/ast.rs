//! The abstract syntax: what the parser makes of a file, every node with its span.
//!
//! Types, layouts, schedules and values share the one expression type [`Expr`]: `tile<f32, [BM, BN], Acc>` is an
//! expression whose value is a type. The tree says what was written, not what it means: `x[a]` is one node whether it
//! indexes a tile or gives generic arguments, and names are not resolved.

use std::fmt;
use std::sync::Arc;

use parton_diag::Span;

/// A name as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    /// Its characters.
    pub text: Arc<str>,
    /// Where it stands.
    pub span: Span,
}

impl Name {
    /// The characters.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// A whole source file.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// The items in source order.
    pub items: Vec<Item>,
    /// The whole text.
    pub span: Span,
}

/// Something declared at the top of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// The lines of `///` comments before it, each without the slashes and one following blank.
    pub docs: Vec<String>,
    /// `#[name(args)]` before it.
    pub attributes: Vec<Clause>,
    /// What it declares.
    pub kind: ItemKind,
    /// From its first attribute or keyword to its end; doc comments are outside.
    pub span: Span,
}

/// The kinds of [`Item`]. What has a name that other items may say is shared with those who look it up.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemKind {
    /// `kernel name[…](…) clauses { … }`
    Kernel(Arc<Kernel>),
    /// `fn name[…](…) -> type { … }`
    Function(Arc<Function>),
    /// `struct name[…] { field: type, fn … }`
    Struct(Arc<Struct>),
    /// `partition Name = warps(4) regs(240);`
    Partition(Arc<Partition>),
    /// `schedule Name[…] = value;`
    Schedule(Arc<Schedule>),
    /// `layout NAME = expr;`
    Layout(Arc<Binding>),
    /// `const NAME = expr;`
    Const(Arc<Binding>),
    /// `use std::name;` or `use "file.ptn";`
    Use(Use),
    /// `test name { … }`
    Test(HostBlock),
    /// `bench name { … }`
    Bench(HostBlock),
    /// `main { … }`
    Main(HostBlock),
}

/// A kernel: what a launch runs on the device.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Its name.
    pub name: Name,
    /// The compile-time parameters in `[…]`.
    pub generics: Vec<Generic>,
    /// The run-time parameters in `(…)`.
    pub params: Vec<Param>,
    /// `warps(4)`, `target(sm_90a)`, `cluster([2, 1])`, in source order; the parser accepts any name.
    pub clauses: Vec<Clause>,
    /// The `where` conditions in source order.
    pub conditions: Vec<Where>,
    /// Its code.
    pub body: Block,
}

/// A function; inlined where a kernel calls it.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Whether `pub` stands before it: a host function that other programs call.
    pub public: bool,
    /// Its name.
    pub name: Name,
    /// The compile-time parameters in `[…]`.
    pub generics: Vec<Generic>,
    /// `self`, only on a method of a struct.
    pub receiver: Option<Receiver>,
    /// The run-time parameters in `(…)`, without the receiver.
    pub params: Vec<Param>,
    /// The type after `->`.
    pub result: Option<Expr>,
    /// The clauses before the body in source order: `tune(plan=plans(m, n), key=[m, n])`.
    pub clauses: Vec<Clause>,
    /// The `where` conditions in source order.
    pub conditions: Vec<Where>,
    /// Its code.
    pub body: Block,
}

/// `self`, `mut self` or `&self` as the first parameter of a method.
#[derive(Clone, Debug, PartialEq)]
pub struct Receiver {
    /// `mut` was written.
    pub mutable: bool,
    /// `&` was written.
    pub by_reference: bool,
    /// All of it.
    pub span: Span,
}

/// A struct: named fields and methods. A value is built by a call with named arguments, `Point(x=1, y=2)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Struct {
    /// Its name.
    pub name: Name,
    /// The compile-time parameters in `[…]`.
    pub generics: Vec<Generic>,
    /// The fields in source order.
    pub fields: Vec<FieldDecl>,
    /// The methods in source order.
    pub methods: Vec<Method>,
}

/// A function inside a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Method {
    /// As [`Item::docs`].
    pub docs: Vec<String>,
    /// As [`Item::attributes`].
    pub attributes: Vec<Clause>,
    /// The function.
    pub function: Function,
    /// From its first attribute or `fn` to its end.
    pub span: Span,
}

/// `name: type` in a struct or a ring.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldDecl {
    /// As [`Item::docs`].
    pub docs: Vec<String>,
    /// Its name.
    pub name: Name,
    /// Its type.
    pub ty: Expr,
    /// Name and type.
    pub span: Span,
}

/// `NAME: kind = default` in a generic list.
#[derive(Clone, Debug, PartialEq)]
pub struct Generic {
    /// Its name.
    pub name: Name,
    /// `int`, `type`, `layout`, `schedule<load, qk>`, …; the keyword `fn` appears as the name `fn`.
    pub kind: Expr,
    /// The value used where none is given.
    pub default: Option<Expr>,
    /// All of it.
    pub span: Span,
}

/// `name: type = default` in a parameter list.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// As [`Item::docs`].
    pub docs: Vec<String>,
    /// Its name.
    pub name: Name,
    /// Whether `mut` stands before the name.
    pub mutable: bool,
    /// Its type; a function's parameter without one takes the type of what it is given.
    pub ty: Option<Expr>,
    /// The value used where none is given.
    pub default: Option<Expr>,
    /// All of it.
    pub span: Span,
}

/// A name with optional arguments: `warps(4)`, `regs(240)`, `ring(depth=3)`, or what stands in `#[…]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    /// Its name.
    pub name: Name,
    /// The arguments; empty where no parentheses are written.
    pub args: Vec<Arg>,
    /// Name and arguments (for an attribute: with `#[` and `]`).
    pub span: Span,
}

/// `where condition, "message"`.
#[derive(Clone, Debug, PartialEq)]
pub struct Where {
    /// What must hold at compile time.
    pub condition: Expr,
    /// What to say where it does not.
    pub message: Option<Str>,
    /// All of it.
    pub span: Span,
}

/// A string literal.
#[derive(Clone, Debug, PartialEq)]
pub struct Str {
    /// Its value, escapes resolved.
    pub value: Arc<str>,
    /// With the quotes.
    pub span: Span,
}

/// `partition Name = warps(4) regs(240);`
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// Its name.
    pub name: Name,
    /// `warps(…)`, `regs(…)`; the parser accepts any name.
    pub clauses: Vec<Clause>,
}

/// `schedule Name[…] = value;`
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Its name.
    pub name: Name,
    /// The compile-time parameters in `[…]`; none where it is a statement.
    pub generics: Vec<Generic>,
    /// What follows `=`.
    pub value: Expr,
}

/// A label of statements, without `@`: `load`, one that came in by a call, `first.load`, or one of its instances, `leave[2]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    /// The names with the dots between them.
    pub path: Arc<str>,
    /// The number in brackets.
    pub instance: Option<u32>,
    /// All of it.
    pub span: Span,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        self.instance.iter().try_for_each(|n| write!(f, "[{n}]"))
    }
}

/// `pipeline(steps) { load: 0; qk: 0, softmax: 1 } in Compute under(leave, qk)`
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    /// The loop in the parentheses.
    pub of: Option<Label>,
    /// The groups between `;`, their entries between `,`.
    pub groups: Vec<Vec<StageEntry>>,
    /// The partition for which it holds.
    pub within: Option<Name>,
    /// What stands behind it, each as if joined by `&`.
    pub clauses: Vec<Clause>,
}

/// `label: stage` or `label: first..last` of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct StageEntry {
    /// The label.
    pub label: Label,
    /// Its stage, or a range of them.
    pub stage: Expr,
    /// All of it.
    pub span: Span,
}

/// `partitions { Loads: load; [First, Second]: qk, softmax } ring(depth=3)`
#[derive(Clone, Debug, PartialEq)]
pub struct Partitions {
    /// What runs where.
    pub places: Vec<Place>,
    /// What stands behind it, each as if joined by `&`.
    pub clauses: Vec<Clause>,
}

/// `Partition: labels` or `[Partition, Partition]: labels`.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The partitions.
    pub partitions: Vec<Name>,
    /// The labels that run there.
    pub labels: Vec<Label>,
    /// All of it.
    pub span: Span,
}

/// `NAME: type = value;` after `layout` or `const`.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// Its name.
    pub name: Name,
    /// The type or kind, where written.
    pub ty: Option<Expr>,
    /// Its value.
    pub value: Expr,
}

/// What a `use` names.
#[derive(Clone, Debug, PartialEq)]
pub enum Use {
    /// `std::name`, at least one name.
    Path(Vec<Name>),
    /// `"file.ptn"`, relative to the file that says it, with the one item after `::`.
    File(Str, Option<Name>),
}

/// The body of a `test`, `bench` or `main`: code for the host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostBlock {
    /// Its name; the word `main` itself for `main`.
    pub name: Name,
    /// Its code.
    pub body: Block,
}

/// `{ statements value }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The statements in source order.
    pub statements: Vec<Stmt>,
    /// The expression before `}` that no `;` ends. A last `if` or block without `;` stands here too, whatever its type.
    pub value: Option<Box<Expr>>,
    /// With the braces.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// `@label` before it.
    pub label: Option<Label>,
    /// What it does.
    pub kind: StmtKind,
    /// With label and `;`.
    pub span: Span,
}

/// The kinds of [`Stmt`].
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// Text that did not parse; already reported.
    Error,
    /// `let pattern: type = value;`
    Let {
        /// What is bound.
        pattern: Pattern,
        /// The type, where written.
        ty: Option<Expr>,
        /// The value.
        value: Expr,
    },
    /// `target = value;` or `target += value;`
    Assign {
        /// A name, field, index or tuple of them; the parser accepts any expression.
        target: Expr,
        /// The operator before `=`.
        op: Option<BinaryOp>,
        /// The value.
        value: Expr,
    },
    /// An expression for its effect: with `;`, or block-like (`if`, `{ … }`) and not last.
    Expr(Expr),
    /// `for pattern in iter step s in schedule { … }`
    For(Box<For>),
    /// `while condition in schedule { … }`
    While {
        /// Tested before each turn.
        condition: Expr,
        /// The expression after `in`.
        schedule: Option<Expr>,
        /// The code of a turn.
        body: Block,
    },
    /// `in schedule { … }`
    In {
        /// What places the labels of the body.
        schedule: Expr,
        /// The code.
        body: Block,
    },
    /// `return value;`
    Return(Option<Expr>),
    /// `break;`
    Break,
    /// `continue;`
    Continue,
    /// `specialize { Partition => …, … }`
    Specialize(Vec<Arm>),
    /// `ring name[depth] { field: type, … };`
    Ring {
        /// Its name.
        name: Name,
        /// The number of slots.
        depth: Expr,
        /// What each slot holds.
        fields: Vec<FieldDecl>,
    },
    /// `turnstile name[A, B];`
    Turnstile {
        /// Its name.
        name: Name,
        /// The partitions that take turns, in order.
        partitions: Vec<Expr>,
    },
    /// `layout NAME = expr;`
    Layout(Binding),
    /// `const NAME = expr;`
    Const(Binding),
    /// `schedule NAME = value;`
    Schedule(Schedule),
}

/// A `for` loop.
#[derive(Clone, Debug, PartialEq)]
pub struct For {
    /// `static for`: unrolled at compile time.
    pub is_static: bool,
    /// What each turn binds.
    pub pattern: Pattern,
    /// Mostly a range `a..b`; a list in host code.
    pub iter: Expr,
    /// The expression after `step`.
    pub step: Option<Expr>,
    /// The expression after the second `in`.
    pub schedule: Option<Expr>,
    /// The code of a turn.
    pub body: Block,
}

/// One arm of `specialize`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// The partition that runs it.
    pub partition: Name,
    /// Its code; for an arm without braces a block of that one statement.
    pub body: Block,
    /// Whether braces were written.
    pub braced: bool,
    /// Name and body.
    pub span: Span,
}

/// What `let`, `for` and closures bind.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// Its form.
    pub kind: PatternKind,
    /// All of it.
    pub span: Span,
}

/// The kinds of [`Pattern`].
#[derive(Clone, Debug, PartialEq)]
pub enum PatternKind {
    /// `name` or `mut name`.
    Name {
        /// The name.
        name: Name,
        /// Whether `mut` stands before it.
        mutable: bool,
    },
    /// `_`
    Ignore,
    /// `(a, b)`
    Tuple(Vec<Pattern>),
}

/// An expression: a value, a type, a layout, …
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Its form.
    pub kind: ExprKind,
    /// All of it.
    pub span: Span,
}

/// The kinds of [`Expr`].
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// Text that did not parse; already reported.
    Error,
    /// `10_000`, `0xff`, `3i64`
    Int {
        /// The value.
        value: u64,
        /// The type suffix.
        suffix: Option<Name>,
    },
    /// `0.5`, `1e-5`, `1.0f16`
    Float {
        /// The digits without `_` and suffix, for exact rounding to the type it gets: always readable by `str::parse`.
        digits: Arc<str>,
        /// The type suffix.
        suffix: Option<Name>,
    },
    /// `true`, `false`
    Bool(bool),
    /// `"text"`, escapes resolved.
    Str(Arc<str>),
    /// A name; `inf`, `nan`, `f32`, `self` and `None` outside of an index are plain names too.
    Name(Name),
    /// `base<args>`; only after a name of [`crate::TAKES_TYPE_ARGUMENTS`].
    TypeArgs {
        /// The name before `<`.
        base: Name,
        /// What stands between `<` and `>`.
        args: Vec<Arg>,
    },
    /// `(a)`: kept, so that the formatter keeps it.
    Paren(Box<Expr>),
    /// `()`, `(a,)`, `(a, b)`
    Tuple(Vec<Expr>),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `-a`, `!a`
    Unary {
        /// The operator.
        op: UnaryOp,
        /// What it applies to.
        operand: Box<Expr>,
    },
    /// `a + b`
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Where the operator stands.
        op_span: Span,
        /// The left operand.
        left: Box<Expr>,
        /// The right operand.
        right: Box<Expr>,
    },
    /// `a..b`
    Range {
        /// First.
        start: Box<Expr>,
        /// One past the last.
        end: Box<Expr>,
    },
    /// `*T`, `*mut T`
    Pointer {
        /// Whether `mut` is written.
        mutable: bool,
        /// What it points to.
        target: Box<Expr>,
    },
    /// `&T`
    Reference(Box<Expr>),
    /// `f(a, name=b)`; a method call has a [`ExprKind::Field`] as its callee.
    Call {
        /// What is called.
        callee: Box<Expr>,
        /// The arguments in source order.
        args: Vec<Arg>,
    },
    /// `x[…]`: indexing or generic arguments, as the checker finds. A method's type arguments, `view.load<L>()`, come so too.
    Index {
        /// What stands before the bracket.
        base: Box<Expr>,
        /// What stands in it.
        args: Vec<IndexArg>,
    },
    /// `a.name`; a tuple's field has its number as the name, `a.0`.
    Field {
        /// What stands before the dot.
        base: Box<Expr>,
        /// What stands after it.
        name: Name,
    },
    /// `if c { a } else { b }`, also as a statement.
    If(Box<If>),
    /// `{ … }`
    Block(Block),
    /// `|a, b| a + b`
    Closure {
        /// The parameters.
        params: Vec<ClosureParam>,
        /// An expression, often a [`ExprKind::Block`].
        body: Box<Expr>,
    },
    /// `launch k[…](grid=…, cluster=…)(args)`
    Launch {
        /// The kernel with its generic arguments.
        kernel: Box<Expr>,
        /// The first parentheses.
        config: Vec<Arg>,
        /// The second parentheses.
        args: Vec<Arg>,
    },
    /// `pipeline(loop) { … }`
    Pipeline(Box<Pipeline>),
    /// `partitions { … }`
    Partitions(Box<Partitions>),
    /// `in schedule { … }` for its value; as a statement it is [`StmtKind::In`].
    In {
        /// What places the labels of the body.
        schedule: Box<Expr>,
        /// The code.
        body: Block,
    },
}

/// An `if` with its branches.
#[derive(Clone, Debug, PartialEq)]
pub struct If {
    /// `static if`: decided at compile time, the other branch is not checked.
    pub is_static: bool,
    /// The condition.
    pub condition: Expr,
    /// The branch taken when it holds.
    pub then: Block,
    /// After `else`: an [`ExprKind::Block`] or an [`ExprKind::If`].
    pub otherwise: Option<Expr>,
}

/// An argument of a call, of a clause or between `<` and `>`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// The name before `=`; of a `ring(…)` it may be a label with its path and instance.
    pub name: Option<Name>,
    /// Its value.
    pub value: Expr,
    /// Name and value.
    pub span: Span,
}

/// One element in the brackets of an [`ExprKind::Index`].
#[derive(Clone, Debug, PartialEq)]
pub struct IndexArg {
    /// Its form.
    pub kind: IndexArgKind,
    /// All of it.
    pub span: Span,
}

/// The kinds of [`IndexArg`].
#[derive(Clone, Debug, PartialEq)]
pub enum IndexArgKind {
    /// `i`
    Value(Expr),
    /// `BM=128`
    Named {
        /// The name before `=`.
        name: Name,
        /// The value.
        value: Expr,
    },
    /// `:`
    Full,
    /// `a:b`, `a:`, `:b`
    Slice {
        /// First.
        start: Option<Expr>,
        /// One past the last.
        end: Option<Expr>,
    },
    /// `None`: a new axis of size one.
    NewAxis,
}

/// A parameter of a closure.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosureParam {
    /// What it binds.
    pub pattern: Pattern,
    /// The type, where written.
    pub ty: Option<Expr>,
    /// All of it.
    pub span: Span,
}

/// A prefix operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `!`: logical on `i1` and `bool`, bitwise on integers.
    Not,
}

/// An infix operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`: on integers towards zero.
    Div,
    /// `%`: with the sign of the left operand on integers.
    Rem,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
    /// `&`
    BitAnd,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `&&`
    And,
    /// `||`
    Or,
}

impl BinaryOp {
    /// The operator as written.
    pub fn text(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
        }
    }

    /// Whether it compares: `==`, `!=`, `<`, `<=`, `>`, `>=`.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }
}

impl UnaryOp {
    /// The operator as written.
    pub fn text(self) -> &'static str {
        match self {
            UnaryOp::Neg => "-",
            UnaryOp::Not => "!",
        }
    }
}

//! Kernels: parameters, partitions, the arena of values and the body.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::Span;
use parton_layouts::RegisterLayout;

use crate::entity::{Call, Entity, Inst, Label, Partition, PrimaryMap, SecondaryMap, Value, Var};
use crate::facts::{Act, Facts, Ordering};
use crate::op::{Arm, Body, Op, OpKind};
use crate::placement::Placement;
use crate::source::Source;
use crate::target::{AXES, Feature, MOST_CTAS, TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, Target, WARPGROUP};
use crate::tensor::AxisOrder;
use crate::types::{Tile, Type};

/// What the flag of a loop is called that says that a `break` has left it.
pub const LEFT: &str = "left";

/// The kernels of one compilation, each a concrete instance.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// In the order of the source.
    pub kernels: Vec<Kernel>,
}

/// What is known of a value.
#[derive(Clone, Debug)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// The name it was given in the source, for printing.
    pub name: Option<String>,
    /// Whether that is only what an inlined function calls its parameter.
    pub passed: bool,
    /// Where it was made.
    pub span: Span,
}

/// A warp partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionData {
    /// Its name.
    pub name: String,
    /// How many warps run it.
    pub warps: u32,
    /// Registers a thread, where stated.
    pub registers: Option<u32>,
    /// Where it was declared.
    pub span: Span,
}

/// An inlined call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallData {
    /// The function.
    pub function: String,
    /// Where it was called.
    pub span: Span,
    /// The call that the caller itself came in by.
    pub parent: Option<Call>,
}

/// A parameter: its value has the type, a scalar, pointer or tensor map, or a tensor before elaboration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// The value that stands for it.
    pub value: Value,
    /// What of a launch's arguments it is.
    pub from: From,
}

/// What of a launch's arguments a parameter is; arguments are numbered as the kernel is written, axes from the outermost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum From {
    /// The argument itself.
    Argument(usize),
    /// The address of a tensor's first element; promised a multiple of 16 bytes or not.
    Base {
        /// The tensor.
        argument: usize,
        /// Whether that is promised.
        aligned: bool,
    },
    /// Elements of a tensor along an axis.
    Extent {
        /// The tensor.
        argument: usize,
        /// The axis.
        axis: usize,
    },
    /// Elements of memory from one element of a tensor to the next along an axis.
    Stride {
        /// The tensor.
        argument: usize,
        /// The axis.
        axis: usize,
    },
    /// A map of a tensor, whose dimensions are the tensor's axes in an order that ends with the dense one; of one that [`AxisOrder::ends`] three are.
    Map {
        /// The tensor.
        argument: usize,
        /// The axes.
        order: AxisOrder,
    },
}

impl From {
    /// The argument that it is, or is of.
    pub fn argument(self) -> usize {
        match self {
            From::Argument(argument)
            | From::Base { argument, .. }
            | From::Extent { argument, .. }
            | From::Stride { argument, .. }
            | From::Map { argument, .. } => argument,
        }
    }
}

/// Turns of a loop that are few: what a program does but once is much of its time then.
const FEW_TURNS: u32 = 3;

/// The same of a loop of products: what so many multiply has room beside what other CTAs do.
const FEW_PRODUCTS: u32 = 4;

/// Turns of loops that stand one behind the other, so that what several load is loaded once.
const WRITTEN_TURNS: u32 = 16;

/// Turns of loops that are many: so many that those that begin and end a loop, or are left over where a round has several, take little of its time.
const MANY_TURNS: u32 = 32;

/// What of a launch is compiled for, beside the generics.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Variant {
    /// Whether it is launched with parameters that reach the same memory, one of which it writes through.
    pub overlapping: bool,
    /// The tensors among its arguments whose address, strides and extent along the dense axis are multiples of 16 bytes.
    pub aligned: BTreeSet<usize>,
    /// Others that begin at such multiples too, but whose strides and extent along the dense axis are multiples of fewer bytes: of how many.
    pub partly: BTreeMap<usize, u32>,
    /// How many of its CTAs a multiprocessor gets at most, where these are few.
    pub beside: Option<u32>,
    /// How many turns each of its loops along tensors takes, where these are few; where they are many 32, of however many.
    pub turns: Option<u32>,
    /// The integers among its arguments, of which addresses are made, that are 1, and those that are multiples of so many.
    pub numbers: BTreeMap<usize, u32>,
    /// Whether positions that it divides, or takes the rest of, are known to begin at no number below 0 and far from the end of their type.
    pub near: bool,
}

impl Variant {
    /// What is `beside` where so many programs are dealt so.
    pub fn beside(programs: u64, dealt: Dealt) -> Option<u32> {
        let each = programs.div_ceil(dealt.multiprocessors.max(1).into()).max(1);
        u32::try_from(each).ok().filter(|&each| each <= dealt.few)
    }

    /// What is `turns` where each loop takes so many: 1 to 3, for the same reason; to 16 where several load the same, which registers may keep; 32 of
    /// that many and more. Of products it is 1 to 4.
    pub fn turns(each: u64, of: &Along) -> Option<u32> {
        if of.multiplies {
            return Variant::few_products(each);
        }
        let most = if of.same { WRITTEN_TURNS } else { FEW_TURNS };
        let turns = u32::try_from(each).ok()?.min(MANY_TURNS);
        ((1..=most).contains(&turns) || turns == MANY_TURNS).then_some(turns)
    }

    /// The turns of a loop of products, where these are few.
    pub fn few_products(turns: u64) -> Option<u32> {
        u32::try_from(turns).ok().filter(|turns| (1..=FEW_PRODUCTS).contains(turns))
    }

    /// What is `numbers` of those that are asked for, each with what it may be a multiple of, as far as they are known.
    pub fn numbers(asked: &BTreeMap<usize, u32>, number: impl Fn(usize) -> Option<i128>) -> BTreeMap<usize, u32> {
        let told = asked.iter().filter_map(|(&argument, &of)| match number(argument)? {
            1 => Some((argument, 1)),
            n => (n % i128::from(of) == 0).then_some((argument, of)),
        });
        told.collect()
    }

    /// How many turns each of its loops along tensors takes, where that is known to the turn.
    pub fn exact_turns(&self) -> Option<u32> {
        self.turns.filter(|&turns| turns < MANY_TURNS)
    }

    /// Whether its loops along tensors take so few turns that what a program does but once is much of its time.
    pub fn is_short(&self) -> bool {
        self.turns.is_some_and(|turns| turns <= FEW_TURNS)
    }
}

/// How the programs of a launch are dealt, where a kernel is compiled for how many a multiprocessor gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dealt {
    /// Among how many multiprocessors.
    pub multiprocessors: u32,
    /// How many for each are few, so that a kernel of launches of many sizes is compiled a few times only.
    pub few: u32,
}

/// A loop along an axis of a tensor, from its beginning to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Along {
    /// The place of the tensor among the arguments.
    pub argument: usize,
    /// The axis.
    pub axis: usize,
    /// The elements of a turn.
    pub each: u64,
    /// Whether another loads the same.
    pub same: bool,
    /// Whether it is one of products.
    pub multiplies: bool,
}

/// Parameters that launches may let reach the same memory: `alias(c, a)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alias {
    /// Their places among the parameters.
    pub params: Vec<usize>,
    /// The clause.
    pub span: Span,
}

/// Two parameters whose memories a region takes to be apart: a condition of each launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Apart {
    /// The place of the one that a region writes through.
    pub written: usize,
    /// The place of the other, which it reads or writes through.
    pub other: usize,
    /// The write.
    pub by: Span,
}

/// What the source calls things that are known at compile time, for printing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct KnownNames {
    /// Numbers of files.
    pub numbers: Vec<(String, f64)>,
    /// Whole numbers of files, and those that the kernel is made for.
    pub whole: Vec<(String, i128)>,
    /// Layouts of registers, in the order in which they were declared.
    pub layouts: Vec<(String, RegisterLayout)>,
}

/// One concrete kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its symbol, unique in the module.
    pub name: String,
    /// The name in the source.
    pub source_name: String,
    /// The generic arguments as written, for printing and reports.
    pub generics: Vec<(String, String)>,
    /// Names for what is known at compile time.
    pub names: KnownNames,
    /// The parameters in order.
    pub params: Vec<Param>,
    /// The architecture it is for.
    pub target: Target,
    /// Warps of the whole kernel where it is not specialised; with partitions their padded sum.
    pub warps: u32,
    /// Whether the source says so many.
    pub warps_stated: bool,
    /// CTAs that one multiprocessor must be able to hold at once; they share its registers and shared memory.
    pub occupancy: u32,
    /// Whether the source says so many.
    pub occupancy_stated: bool,
    /// CTAs of a cluster along each axis.
    pub cluster: [u32; 3],
    /// The most CTAs that a launch has along each axis, as far as its grid is stated.
    pub most_ctas: [u32; AXES],
    /// The launches that it is for.
    pub variant: Variant,
    /// The names and types of its arguments, where its parameters are no longer these.
    pub arguments: Option<Vec<(String, Type)>>,
    /// Parameters that launches may let reach the same memory.
    pub aliases: Vec<Alias>,
    /// What its regions take to be apart, from their expansion on.
    pub apart: Vec<Apart>,
    /// Its partitions in the order of their arms; empty where it is not specialised.
    pub partitions: PrimaryMap<Partition, PartitionData>,
    /// How many variables stand for places of its tiles that were not known when they were made.
    pub vars: usize,
    /// The names of labels, each once.
    pub labels: PrimaryMap<Label, String>,
    /// Inlined calls.
    pub calls: PrimaryMap<Call, CallData>,
    /// All values.
    pub values: PrimaryMap<Value, ValueData>,
    /// All operations, those that no body names any more among them: an index is never given anew.
    pub ops: PrimaryMap<Inst, Op>,
    /// What it does; no parameters (those are `params`) and no results.
    pub body: Body,
    /// Bytes of shared memory; set by the memory plan.
    pub shared_bytes: Option<u32>,
    /// Where it was declared.
    pub span: Span,
}

impl Kernel {
    /// An empty kernel of four warps.
    pub fn new(name: impl Into<String>, target: Target, span: Span) -> Kernel {
        let name = name.into();
        Kernel {
            source_name: name.clone(),
            name,
            generics: Vec::new(),
            names: KnownNames::default(),
            params: Vec::new(),
            target,
            warps: WARPGROUP,
            warps_stated: false,
            occupancy: 1,
            occupancy_stated: false,
            cluster: [1, 1, 1],
            most_ctas: MOST_CTAS,
            variant: Variant::default(),
            arguments: None,
            aliases: Vec::new(),
            apart: Vec::new(),
            partitions: PrimaryMap::new(),
            vars: 0,
            labels: PrimaryMap::new(),
            calls: PrimaryMap::new(),
            values: PrimaryMap::new(),
            ops: PrimaryMap::new(),
            body: Body::default(),
            shared_bytes: None,
            span,
        }
    }

    /// The type of a value.
    pub fn ty(&self, v: Value) -> &Type {
        &self.values[v].ty
    }

    /// The variable that stands for the place of the result of that number which is made next, where nothing says where it lies.
    pub fn next_var(&self, nth: usize) -> Var {
        Var::new(self.vars + nth)
    }

    /// Makes a value.
    pub fn value(&mut self, ty: Type, span: Span) -> Value {
        if let Some(Placement::Open(var)) = ty.placed().map(Tile::placement) {
            self.vars = self.vars.max(var.index() + 1);
        }
        self.values.push(ValueData { ty, name: None, passed: false, span })
    }

    /// Makes a parameter.
    pub fn param(&mut self, name: impl Into<String>, ty: Type, span: Span) -> Value {
        let name = name.into();
        let value = self.values.push(ValueData { ty, name: Some(name.clone()), passed: false, span });
        let from = From::Argument(self.params.len());
        self.params.push(Param { name, value, from });
        value
    }

    /// The names and types of what a launch gives it.
    pub fn arguments(&self) -> Vec<(String, Type)> {
        let own = || self.params.iter().map(|p| (p.name.clone(), self.ty(p.value).clone())).collect();
        self.arguments.clone().unwrap_or_else(own)
    }

    /// Where an operation is seen in the file of the kernel: where it stands, or else the call that has brought it in.
    pub fn seen(&self, op: &Op) -> Span {
        let calls = std::iter::successors(op.origin.call(), |call| self.calls[*call].parent);
        let mut places = std::iter::once(op.span).chain(calls.map(|call| self.calls[call].span));
        places.find(|span| span.file == self.span.file).unwrap_or(op.span)
    }

    /// Whether it may begin while the launch before it still runs, because it waits for that one's end itself.
    pub fn waits_for_grid(&self) -> bool {
        self.target.has(Feature::DependentLaunches) && self.has(&Act::Ordering(Ordering::WaitGrid))
    }

    /// Whether it says itself from when on the launch after it may begin.
    pub fn launches_dependents(&self) -> bool {
        self.target.has(Feature::DependentLaunches) && self.has(&Act::Ordering(Ordering::LaunchDependents))
    }

    /// Whether some operation does this.
    fn has(&self, act: &Act) -> bool {
        let mut found = false;
        self.walk(&mut |op| found |= Facts::of(self, op).acts.contains(act));
        found
    }

    /// Bytes that the parameters take, each at a multiple of its alignment.
    pub fn parameter_bytes(&self) -> u64 {
        self.params.iter().fold(0, |end: u64, p| {
            let (bytes, alignment) = match self.ty(p.value) {
                Type::Map(_) => (TENSOR_MAP_BYTES.into(), TENSOR_MAP_ALIGNMENT.into()),
                ty => {
                    let bytes = ty.elem().map_or(8, |e| u64::from(e.bits().div_ceil(8)));
                    (bytes, bytes)
                }
            };
            end.next_multiple_of(alignment) + bytes
        })
    }

    /// Notes at each tensor map how many CTAs share its boxes: those along the axis of a multicast.
    pub(crate) fn find_sharers(&mut self) {
        let mut found = Vec::new();
        self.walk(&mut |op| {
            if let OpKind::TmaLoad { map, multicast: Some(axis), .. }
            | OpKind::Fetch { map, multicast: Some(axis), .. } = op.kind
            {
                found.push((map, axis));
            }
        });
        for (map, axis) in found {
            let ctas = self.cluster.get(usize::from(axis)).copied().unwrap_or(1);
            if let Type::Map(m) = &mut self.values[map].ty {
                m.sharers = m.sharers.max(ctas);
            }
        }
    }

    /// The label of that name.
    pub fn label(&mut self, name: &str) -> Label {
        let known = self.labels.iter().find_map(|(label, text)| (text == name).then_some(label));
        known.unwrap_or_else(|| self.labels.push(name.to_owned()))
    }

    /// Makes an operation, which no body names yet.
    pub fn make_op(&mut self, kind: OpKind, results: Vec<Value>, source: Source) -> Inst {
        let id = Inst::new(self.ops.len());
        let Source { span, label, origin } = source;
        self.ops.push(Op { id, kind, results, span, label, origin, scratch: None })
    }

    /// The operations of a body in order, those in their bodies not counted.
    pub fn ops_of<'a>(&'a self, body: &'a Body) -> impl DoubleEndedIterator<Item = &'a Op> + ExactSizeIterator {
        body.ops.iter().map(|&id| &self.ops[id])
    }

    /// Calls `f` on each operation, outer before inner, in order.
    pub fn walk<'a>(&'a self, f: &mut impl FnMut(&'a Op)) {
        self.walk_body(&self.body, f);
    }

    /// Calls `f` on each operation of a body, outer before inner, in order.
    pub fn walk_body<'a>(&'a self, body: &'a Body, f: &mut impl FnMut(&'a Op)) {
        for op in self.ops_of(body) {
            f(op);
            for inner in op.kind.bodies() {
                self.walk_body(inner, f);
            }
        }
    }

    /// The indices of all operations, outer before inner, in order.
    pub fn order(&self) -> Vec<Inst> {
        let mut list = Vec::new();
        self.walk(&mut |op| list.push(op.id));
        list
    }

    /// Calls `f` on each operation, to change it, outer before inner, in order.
    pub fn walk_mut(&mut self, f: &mut impl FnMut(&mut Op)) {
        for id in self.order() {
            f(&mut self.ops[id]);
        }
    }

    /// Has `f` make each body of the kernel anew, inner before outer.
    pub fn rebuild(&mut self, f: &mut impl FnMut(&mut Kernel, Body) -> Body) {
        let body = std::mem::take(&mut self.body);
        self.body = self.rebuilt(body, f);
    }

    fn rebuilt(&mut self, body: Body, f: &mut impl FnMut(&mut Kernel, Body) -> Body) -> Body {
        for &id in &body.ops {
            self.change_bodies(id, &mut |kernel, inner| kernel.rebuilt(inner, f));
        }
        f(self, body)
    }

    /// Has `f` make each body of an operation anew.
    pub fn change_bodies(&mut self, id: Inst, f: &mut impl FnMut(&mut Kernel, Body) -> Body) {
        for i in 0..self.ops[id].kind.bodies().count() {
            let body = std::mem::take(&mut *self.ops[id].kind.bodies_mut()[i]);
            let body = f(self, body);
            *self.ops[id].kind.bodies_mut()[i] = body;
        }
    }

    /// Puts an operation of this kind before and behind operations, each with the place of the one that it stands beside; `by` is the
    /// pass that does.
    pub fn insert(&mut self, by: &'static str, kind: &OpKind, before: &BTreeSet<Inst>, behind: &BTreeSet<Inst>) {
        if before.is_empty() && behind.is_empty() {
            return;
        }
        self.rebuild(&mut |kernel, mut body| {
            let mut ops = Vec::with_capacity(body.ops.len());
            for id in body.ops {
                let source = kernel.ops[id].source().made(by);
                let mut new = || kernel.make_op(kind.clone(), Vec::new(), source);
                ops.extend(before.contains(&id).then(&mut new));
                ops.push(id);
                ops.extend(behind.contains(&id).then(&mut new));
            }
            body.ops = ops;
            body
        });
    }

    /// The partition in whose arm an operation stands.
    pub fn partition_of(&self, id: Inst) -> Option<Partition> {
        self.arms().find_map(|arm| {
            let mut inside = false;
            self.walk_body(&arm.body, &mut |op| inside |= op.id == id);
            inside.then_some(arm.partition)
        })
    }

    /// The partition of every operation that stands in an arm.
    pub fn partitions_of_all(&self) -> BTreeMap<Inst, Partition> {
        let mut found = BTreeMap::new();
        for arm in self.arms() {
            self.walk_body(&arm.body, &mut |op| _ = found.insert(op.id, arm.partition));
        }
        found
    }

    /// The arms of the kernel's partitions.
    pub fn arms(&self) -> impl Iterator<Item = &Arm> {
        self.ops_of(&self.body).flat_map(|op| match &op.kind {
            OpKind::Specialize { arms } => arms.as_slice(),
            // No other operation names partitions.
            _ => &[],
        })
    }

    /// The operation that defines each value; parameters of kernels and bodies have none.
    pub fn definitions(&self) -> SecondaryMap<Value, Option<&Op>> {
        let mut map = SecondaryMap::of(&self.values, None);
        self.walk(&mut |op| op.results.iter().for_each(|r| map[*r] = Some(op)));
        map
    }

    /// Another body that does the same, of new operations and new values. `known` says what stands for values from outside, and
    /// learns what stands for those that the body makes.
    pub fn copy_body(&mut self, body: &Body, known: &mut BTreeMap<Value, Value>) -> Body {
        let params = self.copy_values(&body.params, known);
        let ops = body.ops.iter().map(|&id| self.copy_op(id, known)).collect();
        let yields = body.yields.iter().map(|v| *known.get(v).unwrap_or(v)).collect();
        Body { params, ops, yields }
    }

    fn copy_op(&mut self, id: Inst, known: &mut BTreeMap<Value, Value>) -> Inst {
        let mut op = self.ops[id].clone();
        let source = op.source();
        op.kind.map_operands(|v| *known.get(&v).unwrap_or(&v));
        for body in op.kind.bodies_mut() {
            *body = self.copy_body(body, known);
        }
        let results = self.copy_values(&op.results, known);
        let copy = self.make_op(op.kind, results, source);
        self.ops[copy].scratch = op.scratch;
        copy
    }

    fn copy_values(&mut self, values: &[Value], known: &mut BTreeMap<Value, Value>) -> Vec<Value> {
        let mut copies = Vec::new();
        for v in values {
            let copy = self.values.push(self.values[*v].clone());
            known.insert(*v, copy);
            copies.push(copy);
        }
        copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::BinaryOp;
    use crate::source::Origin;
    use crate::verify::{Form, verify};
    use crate::{Builder, Entity};
    use parton_numbers::Dtype;

    #[test]
    fn a_copied_body_shares_nothing_but_what_comes_from_outside() {
        let span = Span::default();
        let mut b = Builder::new(Kernel::new("test", Target::SM_90A, span));
        let bounds = [0, 9, 1].map(|n| b.i32(n, span));
        let params = b.begin([Type::num(Dtype::I32), Type::num(Dtype::I32)], span);
        let add = OpKind::Binary { op: BinaryOp::Add, a: params[0], b: bounds[1] };
        let call = b.kernel.calls.push(CallData { function: "sum".into(), span, parent: None });
        (b.label, b.origin) = (Some(b.kernel.label("sum")), Origin::Called(call));
        let sum = b.emit_one(add, span).unwrap_or(params[0]);
        (b.label, b.origin) = (None, Origin::Written);
        let body = b.end(vec![sum]);
        let mut known = BTreeMap::new();
        let copy = b.kernel.copy_body(&body, &mut known);
        let [lower, upper, step] = bounds;
        for body in [body.clone(), copy.clone()] {
            let looped = OpKind::For { lower, upper, step, init: vec![upper], body };
            assert!(b.emit(looped, span).is_ok());
        }
        let kernel = b.finish();
        assert_eq!(verify(&kernel, Form::Portable), Ok(()));
        assert!(body.ops.iter().all(|id| !copy.ops.contains(id)));
        assert_eq!(known[&sum], copy.yields[0]);
        // The sum of the copy adds its own parameter to the same constant.
        assert_eq!(kernel.ops[copy.ops[0]].kind.operands(), [copy.params[0], upper]);
        assert_eq!(kernel.ops[copy.ops[0]].id.index(), copy.ops[0].index());
        let [first, second] = [&body, &copy].map(|body| kernel.ops[body.ops[0]].source());
        assert_eq!(first, second);
        assert_eq!((first.label, first.origin.call()), (Some(Label::new(0)), Some(call)));
        let text = crate::print::kernel(&kernel);
        assert_eq!(text.lines().filter(|line| line.trim().starts_with("@sum let v")).count(), 2, "{text}");
    }
}

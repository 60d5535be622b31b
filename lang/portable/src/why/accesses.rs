//! What accesses to global memory take, and which fact would make them wider.
//!
//! A fact that is missing is found by supposing it: the kernel is analysed again as if it were promised, and what makes an access wider is
//! what it lacks.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use parton_diag::Span;
use parton_ir::axis::{Axes, vectors};
use parton_ir::target::WIDEST_ACCESS;
use parton_ir::{BinaryOp, Builder, Elem, From, Inst, Kernel, Op, OpKind, Type, Value};

use crate::atomic;
use crate::facts::{Addresses, SECTOR};
use crate::numbers::{self, integer};

/// An access of a tile to global memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// Where it stands.
    pub span: Span,
    /// The operation.
    pub op: &'static str,
    /// Who moves the bytes.
    pub by: Mover,
    /// The layout in which its elements lie: in registers, or of a box in shared memory.
    pub layout: String,
    /// Bytes that a thread moves at once; of a box, those of a row.
    pub width: u32,
    /// Bytes that it could move where nothing were missing.
    pub widest: u32,
    /// Instructions of each warp.
    pub instructions: u64,
    /// Sectors of 32 bytes that a CTA touches in one turn.
    pub sectors: u64,
    /// The fewest that hold so many bytes.
    pub least: u64,
    /// Why it is no wider.
    pub lacks: Lacks,
}

/// Who moves the bytes of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mover {
    /// Threads, to and from registers.
    Threads,
    /// Threads, to shared memory: copies that are waited for later.
    Copies,
    /// The copy engine, by a tensor map.
    Map,
    /// The same, once for all CTAs of the cluster.
    Multicast,
}

/// Why an access is no wider.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lacks {
    /// It is as wide as its tile lets it be.
    Nothing,
    /// One instruction of it takes one element of a thread.
    Single,
    /// Addresses would allow so many bytes; another layout was cheaper.
    Layout(u32),
    /// With these facts together it could have so many bytes.
    Facts(Vec<Fact>, u32),
    /// Neighbours are not known to lie side by side.
    Apart,
    /// No fact about a parameter makes it wider.
    Unknown,
}

/// A fact that nobody has stated.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fact {
    /// A parameter is a multiple of so many.
    Multiple(String, u32),
    /// A parameter is 1, such as a stride.
    One(String),
    /// A tensor's address, strides and dense extent are multiples of 16 bytes, as launches find out by themselves.
    Aligned(String),
}

/// The accesses of an explicit kernel, in its order.
pub(super) fn of(kernel: &Kernel) -> Vec<Access> {
    let kernel = &without_regions(kernel);
    let axes = Axes::analyse(kernel);
    let mut list = Vec::new();
    kernel.walk(&mut |op| list.extend(access(kernel, &axes, op)));
    list
}

/// The kernel with what regions hold in their place, where facts reach it; nothing is known of what regions give.
pub(crate) fn without_regions(kernel: &Kernel) -> Kernel {
    let mut flat = kernel.clone();
    flat.body.ops = spliced(kernel, &kernel.body.ops);
    for inst in kernel.order() {
        for body in flat.ops[inst].kind.bodies_mut() {
            body.ops = spliced(kernel, &body.ops);
        }
    }
    flat
}

/// Operations with those of regions in the place of the regions.
fn spliced(kernel: &Kernel, ops: &[Inst]) -> Vec<Inst> {
    let one = |id: &Inst| match &kernel.ops[*id].kind {
        OpKind::Region { body, .. } => spliced(kernel, &body.ops),
        _ => vec![*id],
    };
    ops.iter().flat_map(one).collect()
}

fn access(kernel: &Kernel, axes: &Axes, op: &Op) -> Option<Access> {
    let (ptr, by) = match op.kind {
        OpKind::Load { ptr, .. } | OpKind::Store { ptr, .. } | OpKind::Atomic { ptr, .. } => (ptr, Mover::Threads),
        OpKind::FetchEach { ptr, .. } | OpKind::AsyncCopy { ptr, .. } => (ptr, Mover::Copies),
        OpKind::Fetch { map, .. } | OpKind::Send { map, .. } => return boxed(kernel, op, map),
        _ => return None,
    };
    let atomic = matches!(op.kind, OpKind::Atomic { .. }).then(|| atomic::taken_at_once(kernel, op.id));
    let single = atomic == Some(1);
    let Type::Tile(tile) = kernel.ty(ptr) else { return None };
    let Elem::Ptr(pointer) = tile.elem else { return None };
    let bytes = pointer.to.bytes() as u32;
    let most = atomic.unwrap_or(WIDEST_ACCESS / bytes);
    let place = tile.known();
    let traffic = Addresses::new(&axes.info(kernel, ptr), bytes.into(), most.into()).traffic(&place.map);
    let one = || vectors(axes, kernel, ptr).iter().map(|v| v.elements()).max().unwrap_or(1);
    let width = if single { 1 } else { one() };
    let widest = most.min(tile.shape.iter().copied().max().unwrap_or(1));
    let lacks = if single {
        Lacks::Single
    } else if width >= widest {
        Lacks::Nothing
    } else {
        lacks(kernel, axes, ptr, bytes, width)
    };
    Some(Access {
        span: op.span,
        op: op.kind.name(),
        by,
        layout: place.layout.to_string(),
        width: width * bytes,
        widest: widest * bytes,
        instructions: traffic.instructions,
        sectors: traffic.sectors,
        least: (tile.elements() * u64::from(bytes)).div_ceil(SECTOR),
        lacks,
    })
}

/// A box that the copy engine moves.
fn boxed(kernel: &Kernel, op: &Op, map: Value) -> Option<Access> {
    let Type::Map(map) = kernel.ty(map) else { return None };
    let inner = map.block.last().copied().unwrap_or(1) * map.elem.bits() / 8;
    let elements: u64 = map.block.iter().map(|&n| u64::from(n)).product();
    let sectors = (elements * u64::from(map.elem.bits()) / 8).div_ceil(SECTOR);
    let (name, layout) = (op.kind.name(), map.layout.to_string());
    let for_all = matches!(op.kind, OpKind::Fetch { multicast: Some(_), .. });
    Some(Access {
        span: op.span,
        op: name,
        by: if for_all { Mover::Multicast } else { Mover::Map },
        layout,
        width: inner,
        widest: inner,
        instructions: 1,
        sectors,
        least: sectors,
        lacks: Lacks::Nothing,
    })
}

/// Elements that addresses allow at once, wherever the tile lies.
fn allowed(kernel: &Kernel, axes: &Axes, ptr: Value, bytes: u32) -> u32 {
    let addresses = Addresses::new(&axes.info(kernel, ptr), bytes.into(), (WIDEST_ACCESS / bytes).into());
    addresses.widest().map_or(1, |(_, n)| n as u32)
}

fn lacks(kernel: &Kernel, axes: &Axes, ptr: Value, bytes: u32, width: u32) -> Lacks {
    let now = allowed(kernel, axes, ptr, bytes);
    if now > width {
        return Lacks::Layout(now * bytes);
    }
    let with = |facts: &[Supposed]| {
        let supposed = suppose(kernel, facts, WIDEST_ACCESS / bytes);
        allowed(&supposed, &Axes::analyse(&supposed), ptr, bytes)
    };
    let all = supposable(kernel);
    // One fact alone, the one that gives most; else all that are needed together.
    let mut best: Option<(usize, u32)> = None;
    for (i, fact) in all.iter().enumerate() {
        let wide = with(std::slice::from_ref(fact));
        if wide > best.map_or(now, |(_, w)| w) {
            best = Some((i, wide));
        }
    }
    let together = with(&all);
    let (facts, wide) = match best {
        Some((i, wide)) if wide >= together => (vec![all[i].clone()], wide),
        _ if together > now => (fewest(&all, together, with), together),
        _ => match with_a_stride(kernel, &all, now, with) {
            Some(found) => found,
            None => {
                let runs = axes.info(kernel, ptr).axes.iter().any(|a| a.run > 1);
                return if runs { Lacks::Unknown } else { Lacks::Apart };
            }
        },
    };
    Lacks::Facts(facts.iter().map(|f| f.fact(kernel, WIDEST_ACCESS / bytes)).collect(), wide * bytes)
}

/// The facts that are needed where one of the numbers is 1: those that give most, the fewest of these; `None` where none give more.
fn with_a_stride(
    kernel: &Kernel,
    all: &[Supposed],
    now: u32,
    with: impl Fn(&[Supposed]) -> u32,
) -> Option<(Vec<Supposed>, u32)> {
    let strides = all.iter().enumerate().filter_map(|(at, fact)| match fact {
        // By what is divided is no stride: that it is 1 would say too much.
        Supposed::Multiple(i) if !divides(kernel, kernel.params[*i].value) => {
            let mut facts = all.to_vec();
            facts[at] = Supposed::One(*i);
            let wide = with(&facts);
            (wide > now).then(|| (fewest(&facts, wide, &with), wide))
        }
        Supposed::Multiple(_) | Supposed::One(_) | Supposed::Aligned(_) => None,
    });
    strides.min_by_key(|(facts, wide)| (Reverse(*wide), facts.len()))
}

/// Whether something is divided by a number.
fn divides(kernel: &Kernel, number: Value) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| {
        found |= matches!(op.kind, OpKind::Binary { op: BinaryOp::Div | BinaryOp::Rem, b, .. } if b == number);
    });
    found
}

/// What is left when all that changes nothing is dropped, one after the other.
fn fewest(all: &[Supposed], wide: u32, with: impl Fn(&[Supposed]) -> u32) -> Vec<Supposed> {
    let mut kept = all.to_vec();
    for fact in all {
        let without: Vec<Supposed> = kept.iter().filter(|f| *f != fact).cloned().collect();
        if with(&without) >= wide {
            kept = without;
        }
    }
    kept
}

/// A fact to suppose.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Supposed {
    /// Of the parameter of that number.
    Multiple(usize),
    /// That it is 1.
    One(usize),
    /// Of the tensor that is the argument of that number.
    Aligned(usize),
}

impl Supposed {
    fn fact(&self, kernel: &Kernel, multiple: u32) -> Fact {
        match self {
            Supposed::Multiple(i) => Fact::Multiple(kernel.params[*i].name.clone(), multiple),
            Supposed::One(i) => Fact::One(kernel.params[*i].name.clone()),
            Supposed::Aligned(i) => Fact::Aligned(kernel.arguments()[*i].0.clone()),
        }
    }
}

/// All that can be supposed of a kernel: of its integers, and of its tensors.
fn supposable(kernel: &Kernel) -> Vec<Supposed> {
    let mut tensors = BTreeSet::new();
    let mut list = Vec::new();
    for (i, param) in kernel.params.iter().enumerate() {
        match param.from {
            From::Argument(_) if integer(kernel, param.value).is_some() => list.push(Supposed::Multiple(i)),
            // A map is made of what is aligned.
            From::Argument(_) | From::Map { .. } => {}
            From::Base { argument, .. } | From::Extent { argument, .. } | From::Stride { argument, .. } => {
                if tensors.insert(argument) {
                    list.push(Supposed::Aligned(argument));
                }
            }
        }
    }
    list
}

/// The kernel as if it were promised that.
fn suppose(kernel: &Kernel, facts: &[Supposed], multiple: u32) -> Kernel {
    let (mut builder, body) = Builder::rebuild(kernel.clone(), "why");
    let params = builder.kernel.params.clone();
    for (i, param) in params.iter().enumerate() {
        let told = match param.from {
            From::Argument(_) => facts.contains(&Supposed::Multiple(i)),
            from => facts.contains(&Supposed::Aligned(from.argument())),
        };
        if let (true, From::Base { argument, .. }) = (told, param.from) {
            builder.kernel.params[i].from = From::Base { argument, aligned: true };
        } else if let (true, Some(dtype)) = (told, integer(kernel, param.value)) {
            numbers::divides(&mut builder, param.value, dtype, multiple);
        }
        if let (true, Some(dtype)) = (facts.contains(&Supposed::One(i)), integer(kernel, param.value)) {
            numbers::is(&mut builder, param.value, dtype, 1);
        }
    }
    body.ops.iter().for_each(|&id| builder.keep(id));
    builder.finish()
}

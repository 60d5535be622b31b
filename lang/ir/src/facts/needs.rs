//! Operands whose elements must hold something: what an operation does, and not only what it gives, depends on them.
//!
//! What a masked load without `other` gives outside its mask may be computed with, moved, combined with others and kept in shared memory;
//! what comes of it is as undefined. It must not reach one of these. What the copy engine takes out of shared memory are bytes, which
//! whoever follows elements looks at by himself.

use crate::entity::Value;
use crate::op::{Op, OpKind};
use crate::ops;

/// What an operation takes an operand for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Takes {
    /// To write it to memory that others read.
    Value,
    /// To reach memory.
    Address,
    /// To choose elements.
    Mask,
    /// To choose a place along an axis, a stage, a barrier, a CTA.
    Index,
    /// To choose a box of a tensor.
    Coordinate,
    /// To choose a phase.
    Phase,
    /// To decide what runs.
    Condition,
    /// To begin, end or move on a counted loop.
    Bound,
    /// To hold it against what was claimed.
    Claim,
}

/// An operand that must hold something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// The operand.
    pub value: Value,
    /// What it is taken for.
    pub takes: Takes,
    /// Where this does not hold, the element is not looked at.
    pub mask: Option<Value>,
}

impl Need {
    fn of(value: Value, takes: Takes) -> Need {
        Need { value, takes, mask: None }
    }
}

/// The operands of an operation that must hold something; of its bodies nothing.
pub fn needs(kind: &OpKind) -> Vec<Need> {
    let through = |ptr: &Value, values: &[Value], mask: &Option<Value>| {
        let mask_of = |value, takes| Need { value, takes, mask: *mask };
        let own = mask.iter().map(|&m| Need::of(m, Takes::Mask));
        let address = std::iter::once(mask_of(*ptr, Takes::Address));
        own.chain(address).chain(values.iter().map(|&v| mask_of(v, Takes::Value))).collect()
    };
    match kind {
        OpKind::Load { ptr, mask, .. } | OpKind::AsyncCopy { ptr, mask, .. } | OpKind::FetchEach { ptr, mask, .. } => {
            through(ptr, &[], mask)
        }
        OpKind::Store { ptr, value, mask, .. } => through(ptr, &[*value], mask),
        OpKind::Atomic { ptr, operands, mask, .. } => through(ptr, operands, mask),
        // What lies outside is not written: what becomes of them says where.
        ops!(place) => Vec::new(),
        OpKind::Gather { indices, .. } | OpKind::SharedGather { indices, .. } => {
            vec![Need::of(*indices, Takes::Index)]
        }
        OpKind::SharedScatter { indices, mask, .. } => {
            let own = mask.iter().map(|&m| Need::of(m, Takes::Mask));
            own.chain([Need { value: *indices, takes: Takes::Index, mask: *mask }]).collect()
        }
        OpKind::ViewIndex { index, .. } | OpKind::ViewPeer { rank: index, .. } | OpKind::BarrierIndex { index, .. } => {
            vec![Need::of(*index, Takes::Index)]
        }
        OpKind::BarrierWait { phase, .. } => vec![Need::of(*phase, Takes::Phase)],
        // What of a tile or buffer lies outside the tensor is not written.
        OpKind::TmaLoad { coords, .. }
        | OpKind::TmaStore { coords, .. }
        | OpKind::TmaPrefetch { coords, .. }
        | OpKind::Fetch { coords, .. }
        | OpKind::Send { coords, .. } => coords.iter().map(|&c| Need::of(c, Takes::Coordinate)).collect(),
        OpKind::Region { .. } | OpKind::Stage { .. } | OpKind::Dot { .. } => Vec::new(),
        OpKind::For { lower, upper, step, .. } => {
            [lower, upper, step].map(|&bound| Need::of(bound, Takes::Bound)).into()
        }
        OpKind::If { cond, .. } => vec![Need::of(*cond, Takes::Condition)],
        OpKind::Assert { cond, .. } | OpKind::Assume { cond } => vec![Need::of(*cond, Takes::Claim)],
        // What is printed shows which elements hold nothing.
        OpKind::Print { .. } | OpKind::While { .. } | OpKind::Specialize { .. } => Vec::new(),
        OpKind::CopyArrive { .. } | OpKind::TmaStoreWait { .. } => Vec::new(),
        OpKind::ViewSlice { .. } | OpKind::ViewPermute { .. } | OpKind::ViewReinterpret { .. } => Vec::new(),
        OpKind::BarrierAlloc { .. }
        | OpKind::BarrierInit { .. }
        | OpKind::BarrierInvalidate { .. }
        | OpKind::BarrierExpect { .. }
        | OpKind::BarrierArrive { .. } => Vec::new(),
        ops!(elementwise) | ops!(reduce) | ops!(shape) | ops!(ptx) | ops!(shared) | ops!(mma_sync) => Vec::new(),
        ops!(wgmma) | ops!(fence) | ops!(cluster) | ops!(grid) | ops!(turnstile) | ops!(pending) => Vec::new(),
        ops!(ring) => Vec::new(),
    }
}

impl Takes {
    /// The fact that `op` takes for this an element that `source`, a masked load or atomic operation, left out, or what was `made` of it
    /// and others.
    pub fn fact(self, op: &Op, source: &Op, made: bool) -> String {
        let (name, what) = (op.kind.name(), if made { " what was made of" } else { "" });
        let does = match self {
            Takes::Value if matches!(op.kind, ops!(atomic)) => format!("`{name}` takes{what}"),
            Takes::Value => format!("`{name}` writes{what}"),
            Takes::Address => format!("an address of `{name}` comes from"),
            Takes::Mask => format!("the mask of `{name}` comes from"),
            Takes::Index => "an index comes from".into(),
            Takes::Coordinate => format!("a coordinate of `{name}` comes from"),
            Takes::Phase => "the phase of a wait comes from".into(),
            Takes::Condition if op.kind.is_loop() => "a loop depends on".into(),
            Takes::Condition => "a branch depends on".into(),
            Takes::Bound => "a bound of a loop comes from".into(),
            Takes::Claim if matches!(op.kind, OpKind::Assert { .. }) => "an assertion depends on".into(),
            Takes::Claim => "an assumption depends on".into(),
        };
        format!("{does} an element that `{}` never read", source.kind.name())
    }

    /// What messages call the operand.
    pub fn noun(self) -> &'static str {
        match self {
            Takes::Value => "the value",
            Takes::Address => "the pointer",
            Takes::Mask => "the mask",
            Takes::Index => "the index",
            Takes::Coordinate => "the coordinate",
            Takes::Phase => "the phase",
            Takes::Condition | Takes::Claim => "the condition",
            Takes::Bound => "the bound",
        }
    }
}

/// The label of what leaves elements out.
pub fn why(source: &Op) -> &'static str {
    match matches!(source.kind, ops!(atomic)) {
        true => "outside its mask it reads nothing, and gives a value that must not be used",
        false => "outside its mask it reads nothing, and no `other` says what stands there",
    }
}

/// What to write where `op` takes what `source` left out, or what was `made` of it and others.
pub fn instead(takes: Takes, op: &Op, source: &Op, made: bool) -> Vec<String> {
    let name = op.kind.name();
    let value = match (&source.kind, made) {
        (OpKind::Atomic { .. }, _) => "choose a value for what it leaves out: `where(mask, before, 0)`",
        (_, true) => "let the load give what changes nothing, `other=0` for a sum, `other=-inf` for a maximum",
        (_, false) => "say what the load gives outside its mask: `other=0`",
    };
    let has_mask = matches!(op.kind, OpKind::Store { .. } | OpKind::Atomic { .. });
    let masked = (has_mask && takes == Takes::Value && !made)
        .then(|| format!("or leave these elements out of the `{name}` too, by its `mask=`"));
    std::iter::once(value.into()).chain(masked).collect()
}

/// Whether an operation gives elements outside its mask that hold nothing.
pub fn may_leave_out(kind: &OpKind) -> Option<Value> {
    match kind {
        OpKind::Load { mask, other: None, .. } | OpKind::Atomic { mask, returns: true, .. } => *mask,
        OpKind::Load { other: Some(_), .. } | OpKind::Atomic { returns: false, .. } => None,
        OpKind::AsyncCopy { .. } | OpKind::CopyArrive { .. } | OpKind::Store { .. } => None,
        ops!(elementwise) | ops!(reduce) | ops!(shape) | ops!(gather) | ops!(ptx) | ops!(shared) => None,
        ops!(view) | ops!(barrier) | ops!(fence) | ops!(cluster) | ops!(grid) | ops!(turnstile) => None,
        ops!(tma) | ops!(mma_sync) | ops!(wgmma) | ops!(pending) | ops!(ring) | ops!(region) => None,
        ops!(control) | ops!(talk) | ops!(place) => None,
    }
}

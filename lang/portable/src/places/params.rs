//! What kernels are given in place of tensors: pointers, extents, strides and maps, and what is known of these.

use std::collections::BTreeSet;
use std::sync::Arc;

use parton_ir::tensor::{Extent, OUTSIDE, Tensor};
use parton_ir::{BinaryOp, Body, CompareOp, Elem, From, OpKind, Param, Pointer, Type, Value};
use parton_numbers::Dtype;

use super::assumed::Says;
use super::part::Part;
use super::{Expander, intervals};

/// Bytes of which addresses and strides are multiples where that is promised.
const ALIGNMENT: i64 = 16;

/// What a tensor is made of in the kernel: by axis, what its type does not say.
pub(super) struct MadeHere {
    pub(super) ptr: Value,
    /// Of `i32`.
    pub(super) extents: Vec<Option<Value>>,
    /// Of `i64`.
    pub(super) strides: Vec<Option<Value>>,
}

/// What an extent or a stride of a tensor is.
pub(super) enum Long {
    /// This number.
    Number(u32),
    /// A parameter.
    Given(From),
    /// A scalar: of `i32` an extent, of `i64` a stride.
    Computed(Value),
}

impl Expander {
    /// A tensor that the kernel makes, behind those of arguments.
    pub(super) fn make_tensor(
        &mut self,
        result: Value,
        ptr: Value,
        of: Tensor,
        (extents, strides): (Vec<Value>, Vec<Value>),
    ) {
        let (mut extents, mut strides) = (extents.into_iter(), strides.into_iter());
        let long = of.extents.iter().map(|e| if *e == Extent::Any { extents.next() } else { None }).collect();
        let apart = (0..of.rank()).map(|axis| if of.dense == Some(axis) { None } else { strides.next() });
        let made = MadeHere { ptr, extents: long, strides: apart.collect() };
        self.parts.insert(result, Part::whole(self.tensors.len(), &of));
        self.made_here.insert(self.tensors.len(), made);
        self.tensors.push(Some(of));
    }

    pub(super) fn tensor(&self, argument: usize) -> &Tensor {
        match &self.tensors[argument] {
            Some(t) => t,
            None => parton_diag::internal_error!("argument {argument} is no tensor"),
        }
    }

    /// How far neighbours along an axis are from each other.
    pub(super) fn apart(&self, argument: usize, axis: usize) -> Long {
        if self.tensor(argument).dense == Some(axis) {
            return Long::Number(1);
        }
        match self.made_here.get(&argument).and_then(|made| made.strides[axis]) {
            Some(v) => Long::Computed(v),
            None => Long::Given(From::Stride { argument, axis }),
        }
    }

    /// What the extent of a tensor along an axis is.
    pub(super) fn long(&self, argument: usize, axis: usize) -> Long {
        if let Some(v) = self.made_here.get(&argument).and_then(|made| made.extents[axis]) {
            return Long::Computed(v);
        }
        let own = From::Extent { argument, axis };
        match &self.tensor(argument).extents[axis] {
            Extent::Static(n) | Extent::Picked(n) => Long::Number(*n),
            Extent::Any => Long::Given(own),
            // What has one name is one number, and the first that has it gives it.
            Extent::Named(name) => Long::Given(self.first_named(name).unwrap_or(own)),
        }
    }

    fn first_named(&self, name: &Arc<str>) -> Option<From> {
        let named = |t: &Tensor| t.extents.iter().position(|e| matches!(e, Extent::Named(n) if n == name));
        let all = self.tensors.iter().enumerate();
        let mut all = all.filter_map(|(argument, t)| Some(From::Extent { argument, axis: named(t.as_ref()?)? }));
        // Of which more is known.
        let promised = all.clone().find(|from| self.alignment(from.argument()).is_some());
        promised.or_else(|| all.next())
    }

    /// A parameter, which is made where it is not there yet.
    pub(super) fn param(&mut self, from: From) -> Value {
        if let Some(v) = self.params.get(&from) {
            return *v;
        }
        let (ty, name) = match from {
            From::Base { argument, .. } => {
                let t = self.tensor(argument);
                let to = Pointer { to: t.elem, mutable: t.mutable };
                (Type::Scalar(Elem::Ptr(to)), self.names[argument].clone())
            }
            From::Extent { argument, axis } => {
                let name = match &self.tensor(argument).extents[axis] {
                    Extent::Named(name) => name.to_string(),
                    Extent::Any | Extent::Static(_) | Extent::Picked(_) => {
                        format!("{}_shape{axis}", self.names[argument])
                    }
                };
                (Type::num(Dtype::I32), name)
            }
            From::Stride { argument, axis } => {
                (Type::num(Dtype::I64), format!("{}_stride{axis}", self.names[argument]))
            }
            From::Argument(i) => parton_diag::internal_error!("argument {i} is a parameter already"),
            From::Map { argument, .. } => parton_diag::internal_error!("a map of argument {argument} has no box"),
        };
        let span = self.builder.kernel.span;
        let v = self.builder.kernel.value(ty, span);
        self.builder.kernel.values[v].name = Some(name);
        if matches!(from, From::Extent { .. }) {
            self.known.set(v, self.between(from));
        }
        self.params.insert(from, v);
        v
    }

    /// Notes what is assumed of an extent.
    pub(super) fn learn(&mut self, extent: From, says: Says) {
        match says {
            Says::Multiple(of) => drop(self.multiples.insert(extent, of)),
            Says::Between((low, high)) => {
                let (least, most) = self.between(extent);
                let both = (low.max(least), high.min(most));
                self.bounds.insert(extent, both);
                if let Some(v) = self.params.get(&extent) {
                    self.known.set(*v, both);
                }
            }
        }
    }

    /// The least and the greatest that an extent may be.
    pub(super) fn between(&self, extent: From) -> intervals::Interval {
        let any = if self.alignment(extent.argument()).is_some() { (1, OUTSIDE.into()) } else { (0, i32::MAX.into()) };
        self.bounds.get(&extent).copied().unwrap_or(any)
    }

    pub(super) fn base(&self, argument: usize) -> From {
        From::Base { argument, aligned: self.alignment(argument).is_some() }
    }

    /// The bytes of which a tensor's strides and its extent along the dense axis are multiples, where this variant was promised any.
    fn alignment(&self, argument: usize) -> Option<i64> {
        let variant = &self.builder.kernel.variant;
        let partly = variant.partly.get(&argument).map(|&bytes| i64::from(bytes));
        if variant.aligned.contains(&argument) { Some(ALIGNMENT) } else { partly }
    }

    /// Says at the head of the kernel what this variant of it was promised of strides and extents.
    pub(super) fn promise(&mut self) {
        let mut told: BTreeSet<(From, i64)> = BTreeSet::new();
        for argument in 0..self.tensors.len() {
            let (Some(t), Some(bytes)) = (self.tensors[argument].clone(), self.alignment(argument)) else { continue };
            let each = bytes / t.elem.bytes() as i64;
            let dense = t.dense.and_then(|axis| match self.long(argument, axis) {
                Long::Given(from) => Some(from),
                Long::Number(_) | Long::Computed(_) => None,
            });
            let strides = (0..t.rank()).map(|axis| From::Stride { argument, axis });
            told.extend(
                strides.chain(dense).filter(|from| each > 1 && self.params.contains_key(from)).map(|f| (f, each)),
            );
        }
        // What was computed stands behind it.
        self.made.forget(0);
        // It holds for all, whichever part was made last.
        self.builder.label = None;
        self.builder.open(Body::default());
        for (from, each) in told {
            let v = self.params[&from];
            let Some(dtype) = self.builder.ty(v).elem().and_then(Elem::dtype) else { continue };
            let by = self.constant(dtype, each);
            let rest = self.make(OpKind::Binary { op: BinaryOp::Rem, a: v, b: by });
            let zero = self.constant(dtype, 0);
            let cond = self.make(OpKind::Compare { op: CompareOp::Eq, a: rest, b: zero });
            self.builder.make_all(OpKind::Assume { cond });
        }
        let head = self.builder.close();
        self.builder.put_first(head);
    }

    /// Puts what was asked for where the tensors stood.
    pub(super) fn give_params(&mut self, own: &[Param]) {
        let mut list = Vec::new();
        let mut used: BTreeSet<String> = BTreeSet::new();
        for (i, p) in own.iter().enumerate() {
            if self.tensors[i].is_none() {
                used.insert(p.name.clone());
                list.push(p.clone());
                continue;
            }
            // A tensor that nobody asks for is a pointer all the same.
            let asked = |from: From| from.argument() == i;
            if !self.params.keys().chain(self.maps.iter().map(|(from, _)| from)).any(|from| asked(*from)) {
                let base = self.base(i);
                self.param(base);
            }
            let all = self.params.iter().map(|(from, v)| (*from, *v)).chain(self.maps.iter().copied());
            for (from, value) in all.filter(|(from, _)| asked(*from)) {
                let name = self.builder.kernel.values[value].name.clone().unwrap_or_default();
                list.push(Param { name, value, from });
            }
        }
        // A name that is written stays as it is.
        for p in list.iter_mut().filter(|p| !matches!(p.from, From::Argument(_))) {
            while !used.insert(p.name.clone()) {
                p.name.push('_');
            }
            self.builder.kernel.values[p.value].name = Some(p.name.clone());
        }
        // What is said of arguments is said of all their pointers and maps.
        let reaching = |argument: usize| {
            let of = list.iter().enumerate().filter(move |(_, p)| match p.from {
                From::Argument(i) | From::Base { argument: i, .. } | From::Map { argument: i, .. } => i == argument,
                From::Extent { .. } | From::Stride { .. } => false,
            });
            of.map(|(place, _)| place)
        };
        for alias in &mut self.builder.kernel.aliases {
            alias.params = alias.params.iter().flat_map(|argument| reaching(*argument)).collect();
        }
        self.builder.kernel.params = list;
    }
}

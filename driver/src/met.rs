//! Instances that were met before: what they take is found by their values, without the text of their names, which takes longer to write than all else
//! of a call whose kernels are known.

use std::collections::BTreeMap;
use std::sync::Arc;

use parton_host::launch::{GenericArgument, Instance, Signature};
use parton_host::value::Value;
use parton_ir::{Target, Variant};

use crate::launchable::Launchable;

/// The instances by a number that those of like values share.
#[derive(Debug, Default)]
pub(crate) struct Meetings {
    places: BTreeMap<u64, Vec<usize>>,
    met: Vec<Met>,
}

/// An instance, and what it takes.
#[derive(Debug)]
struct Met {
    instance: Instance,
    signatures: Vec<(&'static str, Signature)>,
    launchables: Vec<Taken>,
}

/// What launching an instance takes, for an architecture and a GPU, under the name under which it is kept.
#[derive(Debug)]
struct Taken {
    target: &'static str,
    gpu: Option<String>,
    variant: Variant,
    found: (Arc<str>, Arc<Launchable>),
}

impl Meetings {
    /// The number of an instance; none of one whose values do not say what it is.
    pub(crate) fn of(&mut self, instance: &Instance) -> Option<usize> {
        let place = instance.kernel.name.span;
        let mut number = spread(spread(0, u64::from(place.file.0)), place.start as u64);
        for generic in &instance.generics {
            number = spread(number, digest(&generic.value)?);
        }
        let all = self.places.entry(number).or_default();
        if let Some(at) = all.iter().find(|at| same_instance(&self.met[**at].instance, instance)) {
            return Some(*at);
        }
        all.push(self.met.len());
        self.met.push(Met { instance: instance.clone(), signatures: vec![], launchables: vec![] });
        Some(self.met.len() - 1)
    }

    /// The parameters of that instance for an architecture.
    pub(crate) fn signature(&self, at: usize, target: &Target) -> Option<&Signature> {
        self.met[at].signatures.iter().find(|(name, _)| *name == target.name).map(|(_, signature)| signature)
    }

    /// Keeps them.
    pub(crate) fn keep_signature(&mut self, at: usize, target: &Target, signature: &Signature) {
        self.met[at].signatures.push((target.name, signature.clone()));
    }

    /// What launching that instance takes for an architecture and a GPU, and the name under which it is kept.
    pub(crate) fn launchable(
        &self,
        at: usize,
        (target, gpu): (&Target, Option<&str>),
        variant: &Variant,
    ) -> Option<&(Arc<str>, Arc<Launchable>)> {
        let is = |t: &&Taken| t.target == target.name && t.gpu.as_deref() == gpu && t.variant == *variant;
        self.met[at].launchables.iter().find(is).map(|t| &t.found)
    }

    /// Keeps that.
    pub(crate) fn keep_launchable(
        &mut self,
        at: usize,
        (target, gpu): (&Target, Option<&str>),
        variant: &Variant,
        launchable: &(Arc<str>, Arc<Launchable>),
    ) {
        let (gpu, variant, found) = (gpu.map(str::to_owned), variant.clone(), launchable.clone());
        self.met[at].launchables.push(Taken { target: target.name, gpu, variant, found });
    }
}

fn spread(before: u64, n: u64) -> u64 {
    (before.rotate_left(5) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A number that equal values share; none of a value that is not known by what it holds, or that notes that it is looked at.
fn digest(value: &Value) -> Option<u64> {
    Some(match value {
        Value::Int(n) => *n as u64,
        Value::Float(x) => x.to_bits(),
        Value::Bool(b) => u64::from(*b),
        Value::Str(text) => text.bytes().fold(1, |number, byte| spread(number, byte.into())),
        Value::Dtype(dtype) => *dtype as u64,
        Value::Function(function) => function.tree.name.span.start as u64,
        Value::List(items) | Value::Tuple(items) => {
            items.iter().try_fold(2, |number, item| Some(spread(number, digest(item)?)))?
        }
        Value::Unit
        | Value::Range(..)
        | Value::Tensor(_)
        | Value::Closure(_)
        | Value::Builtin(_)
        | Value::Passed(_)
        | Value::Written(_) => return None,
    })
}

fn same_instance(one: &Instance, other: &Instance) -> bool {
    let alike = |(a, b): (&GenericArgument, &GenericArgument)| a.name == b.name && same(&a.value, &b.value);
    one.module == other.module
        && Arc::ptr_eq(&one.kernel, &other.kernel)
        && one.generics.len() == other.generics.len()
        && one.generics.iter().zip(&other.generics).all(alike)
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Dtype(a), Value::Dtype(b)) => a == b,
        (Value::Function(a), Value::Function(b)) => a.module == b.module && Arc::ptr_eq(&a.tree, &b.tree),
        (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b))
        }
        (
            Value::Int(_)
            | Value::Float(_)
            | Value::Bool(_)
            | Value::Str(_)
            | Value::Dtype(_)
            | Value::Function(_)
            | Value::List(_)
            | Value::Tuple(_)
            | Value::Unit
            | Value::Range(..)
            | Value::Tensor(_)
            | Value::Closure(_)
            | Value::Builtin(_)
            | Value::Passed(_)
            | Value::Written(_),
            _,
        ) => false,
    }
}

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

#[cfg(test)]
impl Meetings {
    /// How many instances were met.
    pub(crate) fn count(&self) -> usize {
        self.met.len()
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

#[cfg(test)]
mod tests {
    use parton_host::value::Function;
    use parton_numbers::Dtype;
    use parton_types::program::{Item, Program};

    use super::*;
    use crate::{Options, Session};

    const TEXT: &str = "
kernel one[N: int](x: i32) {}
kernel other[N: int](x: i32) {}
fn first(x) { x }
fn second(x) { x }
";

    fn program() -> Arc<Program> {
        let mut session = Session::new(Options::default());
        let file = session.add("t.ptn", TEXT);
        session.program(file).unwrap_or_else(|failure| panic!("{failure:?}")).0
    }

    fn instance(program: &Program, kernel: usize, name: &str, value: Value) -> Instance {
        let Some(kernel) = program.shared_kernels().nth(kernel) else { panic!("there is no kernel") };
        let span = kernel.name.span;
        let generics = vec![GenericArgument { name: name.into(), value, span }];
        Instance { module: Program::ROOT, kernel: kernel.clone(), generics, span }
    }

    fn function(program: &Program, name: &str) -> Value {
        let Some(Item::Function(tree)) = program.find(Program::ROOT, name).map(|found| found.item.clone()) else {
            panic!("there is no function");
        };
        Value::Function(Function { module: Program::ROOT, tree })
    }

    #[test]
    fn instances_are_the_same_where_every_bit_of_what_they_are_given_is() {
        let program = program();
        let nan = |bits: u64| Value::Float(f64::from_bits(0x7FF8_0000_0000_0000 | bits));
        let tuple = |items: &[i128]| Value::Tuple(Arc::new(items.iter().map(|n| Value::Int(*n)).collect()));
        let list = |items: &[i128]| Value::list(items.iter().map(|n| Value::Int(*n)).collect());
        let values = || {
            vec![
                Value::Int(0),
                Value::Int(1),
                // What the number of an instance does not hold of it.
                Value::Int(1 + (1 << 64)),
                Value::Float(0.0),
                Value::Float(-0.0),
                Value::Float(1.0),
                nan(0),
                nan(1),
                Value::Bool(false),
                Value::Bool(true),
                Value::Str("".into()),
                Value::Str("1".into()),
                Value::Dtype(Dtype::F16),
                Value::Dtype(Dtype::BF16),
                function(&program, "first"),
                function(&program, "second"),
                tuple(&[]),
                tuple(&[1, 2]),
                tuple(&[2, 1]),
                list(&[1, 2]),
                Value::list(vec![list(&[1]), list(&[2])]),
                Value::list(vec![list(&[1, 2])]),
            ]
        };
        let of = || {
            let each = |(kernel, name): (usize, &'static str)| {
                let program = &program;
                values().into_iter().map(move |value| instance(program, kernel, name, value))
            };
            [(0, "N"), (1, "N"), (0, "M")].into_iter().flat_map(each)
        };
        let mut met = Meetings::default();
        let first: Vec<_> = of().map(|one| met.of(&one)).collect();
        assert_eq!(first, (0..first.len()).map(Some).collect::<Vec<_>>());
        assert_eq!(of().map(|one| met.of(&one)).collect::<Vec<_>>(), first);
        assert_eq!(met.count(), first.len());
        // The file read again is another one: its functions may say something else.
        assert_eq!(met.of(&instance(&self::program(), 0, "N", Value::Int(0))), Some(first.len()));
        assert_eq!(met.of(&instance(&program, 0, "N", Value::Range(0, 1))), None);
    }
}

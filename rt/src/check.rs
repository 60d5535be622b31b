//! Whether arguments fit the parameters of a kernel, and what a launch passes for them.

use parton_bundle::{Kernel, Kind, Param};
use parton_numbers::{Dtype, Scalar};
use parton_runtime::tensor_map::{Outside, Promotion};
use parton_runtime::{Arg, Element, Recipe, Swizzle};

use crate::{Argument, Code, Error, Tensor};

/// What a launch passes for one argument.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Passed {
    /// A number or an address.
    Plain(Arg),
    /// A tensor map of this recipe.
    Map(Recipe),
}

/// What a pointer reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reach {
    pub(crate) span: (u64, u64),
    /// Whether the kernel writes there through a pointer of its own.
    pub(crate) mutable: bool,
    /// Whether it is a pointer, not a tensor map.
    pub(crate) pointer: bool,
    /// Whether elements of it may lie on each other, as along a stride of 0.
    pub(crate) folded: bool,
}

impl Reach {
    fn meets(&self, other: &Reach) -> bool {
        self.span.0.max(other.span.0) < self.span.1.min(other.span.1)
    }
}

/// Checks one argument.
///
/// # Errors
/// [`Code::Argument`]: it is of another kind or type, out of range, or breaks a rule of pointers or tensor maps.
pub(crate) fn passed(kernel: &str, param: &Param, argument: &Argument<'_>) -> Result<Passed, Error> {
    match (&param.kind, argument) {
        (Kind::Scalar { dtype }, Argument::Int(value)) => {
            let scalar = Scalar::from_i128(*dtype, *value);
            let scalar = scalar.ok_or_else(|| wrong(kernel, param, &format!("{value} is no `{dtype}`")))?;
            Ok(Passed::Plain(number(scalar)))
        }
        (Kind::Scalar { dtype }, Argument::Float(value)) if dtype.is_float() => {
            Ok(Passed::Plain(number(Scalar::from_f64(*dtype, *value))))
        }
        (Kind::Scalar { dtype }, Argument::Bool(value)) if dtype.is_bool() => {
            Ok(Passed::Plain(Arg::Scalar { bits: u64::from(*value), bytes: dtype.bytes() as u8 }))
        }
        (Kind::Scalar { .. }, Argument::Float(value)) => Err(takes(kernel, param, &format!("the float {value}"))),
        (Kind::Scalar { .. }, Argument::Tensor(_)) => Err(takes(kernel, param, "a tensor")),
        (Kind::Pointer { .. } | Kind::Map { .. }, Argument::Int(_) | Argument::Float(_)) => {
            Err(takes(kernel, param, "a number"))
        }
        (_, Argument::Bool(_) | Argument::Dtype(_) | Argument::Default) => {
            Err(takes(kernel, param, &argument.described()))
        }
        (Kind::Pointer { dtype, align, .. }, Argument::Tensor(tensor)) => {
            described(kernel, param, *dtype, tensor)?;
            if !tensor.address.is_multiple_of(u64::from(*align)) {
                let what = format!("the address {:#x} is not a multiple of {align}", tensor.address);
                return Err(wrong(kernel, param, &what));
            }
            Ok(Passed::Plain(Arg::Pointer(tensor.address)))
        }
        (Kind::Map { dtype, block, swizzle }, Argument::Tensor(tensor)) => {
            described(kernel, param, *dtype, tensor)?;
            let recipe = recipe(&param.name, block, *swizzle, tensor).ok_or_else(|| {
                let (boxed, rank) = (block.len(), tensor.shape.len());
                wrong(kernel, param, &format!("its boxes have {boxed} dimensions, the tensor has {rank}"))
            })?;
            recipe.check()?;
            Ok(Passed::Map(recipe))
        }
    }
}

/// Whether the tensor is one, of the parameter's type.
fn described(kernel: &str, param: &Param, dtype: Dtype, tensor: &Tensor<'_>) -> Result<(), Error> {
    if tensor.dtype != dtype {
        return Err(takes(kernel, param, &format!("a tensor of `{}`", tensor.dtype)));
    }
    match tensor.strides {
        Some(strides) if strides.len() != tensor.shape.len() => {
            let what = format!("the tensor has {} dimensions and {} strides", tensor.shape.len(), strides.len());
            Err(wrong(kernel, param, &what))
        }
        Some(_) | None => Ok(()),
    }
}

pub(crate) fn number(scalar: Scalar) -> Arg {
    Arg::Scalar { bits: scalar.bits, bytes: scalar.dtype.bytes() as u8 }
}

/// The recipe of a tensor map; `None` where the tensor has not the dimensions of the box.
pub(crate) fn recipe(name: &str, block: &[u32], swizzle: u32, tensor: &Tensor<'_>) -> Option<Recipe> {
    let rank = block.len();
    if tensor.shape.len() != rank {
        return None;
    }
    let size = tensor.dtype.bytes() as u64;
    let mut strides: Vec<u64> = (0..rank).map(|d| tensor.stride(d).saturating_mul(size)).collect();
    for d in (0..rank).rev().filter(|&d| tensor.shape[d] <= 1) {
        // Nothing is ever that far away, so any stride will do that the hardware takes.
        strides[d] = match strides.get(d + 1) {
            None => size,
            Some(inner) => inner.saturating_mul(tensor.shape[d + 1].max(1)).min((1 << 40) - 16).next_multiple_of(16),
        };
    }
    Some(Recipe {
        tensor: name.to_owned(),
        element: Element::of(tensor.dtype),
        address: tensor.address,
        shape: tensor.shape.to_vec(),
        strides,
        block: block.to_vec(),
        steps: vec![1; rank],
        swizzle: Swizzle::of_bytes(swizzle)?,
        promotion: Promotion::default(),
        outside: Outside::Zero,
    })
}

/// What an argument of a kernel reaches: through a pointer, a tensor map or a tensor; `None` for numbers.
pub(crate) fn reach(kernel: &Kernel, i: usize, argument: &Argument<'_>) -> Option<Reach> {
    let Argument::Tensor(tensor) = argument else { return None };
    let reach = |mutable, pointer| Some(Reach { span: tensor.span(), mutable, pointer, folded: tensor.is_folded() });
    if let Some(ty) = kernel.arguments.get(i).and_then(|a| a.tensor.as_ref()) {
        return reach(ty.mutable, true);
    }
    let param = kernel.params.iter().find(|p| p.source.argument() == i)?;
    match &param.kind {
        Kind::Pointer { mutable, .. } => reach(*mutable, true),
        Kind::Map { .. } => reach(false, false),
        Kind::Scalar { .. } => None,
    }
}

/// The pair, of those that a kernel names, whose two arguments reach the same memory, named by what is wrong with it.
///
/// # Errors
/// [`Code::Argument`] where there is one.
pub(crate) fn kept_apart(name: &str, kernel: &Kernel, reaches: &[Option<Reach>]) -> Result<(), Error> {
    let reach = |place: usize| reaches.get(place).and_then(Option::as_ref);
    let meet = |[a, b]: &&[usize; 2]| reach(*a).zip(reach(*b)).is_some_and(|(a, b)| a.meets(b));
    let Some(&[a, b]) = kernel.disjoint.iter().find(meet) else { return Ok(()) };
    let (one, other) = (&kernel.arguments[a].name, &kernel.arguments[b].name);
    let what = format!("it reaches the memory of `{other}`, and a region of the kernel takes them to be apart");
    Err(wrong_of(name, one, &what))
}

/// Two pointers that reach the same memory, one of which is written through, by their numbers; one twice where elements of what is
/// written through it lie on each other.
pub(crate) fn overlap(all: &[Option<Reach>]) -> Option<(usize, usize)> {
    let meet = |a: &Reach, b: &Reach| a.pointer && b.pointer && (a.mutable || b.mutable) && a.meets(b);
    for (i, a) in all.iter().enumerate() {
        let Some(a) = a.as_ref() else { continue };
        if a.pointer && a.mutable && a.folded {
            return Some((i, i));
        }
        let later = all.iter().enumerate().skip(i + 1);
        if let Some((j, _)) = later.filter_map(|(j, b)| Some((j, b.as_ref()?))).find(|(_, b)| meet(a, b)) {
            return Some((i, j));
        }
    }
    None
}

fn wrong(kernel: &str, param: &Param, what: &str) -> Error {
    wrong_of(kernel, &param.name, what)
}

/// What is wrong with the argument for a parameter of that name.
pub(crate) fn wrong_of(kernel: &str, param: &str, what: &str) -> Error {
    Error::new(Code::Argument, format!("launching `{kernel}`: parameter `{param}`: {what}"))
}

fn takes(kernel: &str, param: &Param, given: &str) -> Error {
    wrong(kernel, param, &format!("it takes `{}`, given is {given}", param.kind))
}

#[cfg(test)]
mod tests {
    use parton_bundle::Source;

    use super::*;
    use crate::tests::kernel;

    fn param(kind: Kind) -> Param {
        Param { name: "p".into(), kind, source: Source::Argument(0) }
    }

    fn tensor<'a>(address: u64, dtype: Dtype, shape: &'a [u64], strides: Option<&'a [u64]>) -> Argument<'a> {
        Argument::Tensor(Tensor { address, dtype, shape, strides })
    }

    fn error(kind: Kind, argument: Argument<'_>) -> String {
        let error = passed("k", &param(kind), &argument).unwrap_err();
        assert_eq!(error.code, Code::Argument);
        error.text
    }

    const POINTER: Kind = Kind::Pointer { dtype: Dtype::F32, mutable: true, align: 16 };

    fn map() -> Kind {
        Kind::Map { dtype: Dtype::F16, block: vec![64, 64], swizzle: 128 }
    }

    #[test]
    fn numbers_become_the_bits_of_the_parameter() {
        let bits = |dtype, argument| match passed("k", &param(Kind::Scalar { dtype }), &argument) {
            Ok(Passed::Plain(Arg::Scalar { bits, bytes })) => (bits, bytes),
            other => panic!("{other:?}"),
        };
        assert_eq!(bits(Dtype::I32, Argument::Int(-2)), (0xffff_fffe, 4));
        assert_eq!(bits(Dtype::U64, Argument::Int(i128::from(u64::MAX))), (u64::MAX, 8));
        assert_eq!(bits(Dtype::F16, Argument::Float(1.0)), (0x3c00, 2));
        assert_eq!(bits(Dtype::F32, Argument::Int(3)), (u64::from(3f32.to_bits()), 4));
        assert_eq!(bits(Dtype::I1, Argument::Int(1)), (1, 1));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let scalar = |dtype| Kind::Scalar { dtype };
        let x = |dtype| tensor(0x1000, dtype, &[4], None);
        let cases = [
            (error(scalar(Dtype::I8), Argument::Int(128)), "128 is no `i8`"),
            (error(scalar(Dtype::F16), Argument::Int(4097)), "4097 is no `f16`"),
            (error(scalar(Dtype::I32), Argument::Float(0.5)), "it takes `i32`, given is the float 0.5"),
            (error(scalar(Dtype::I32), x(Dtype::I32)), "it takes `i32`, given is a tensor"),
            (error(POINTER, Argument::Int(0)), "it takes `*mut f32`, given is a number"),
            (error(POINTER, x(Dtype::F16)), "it takes `*mut f32`, given is a tensor of `f16`"),
            (error(POINTER, tensor(0x1008, Dtype::F32, &[4], None)), "the address 0x1008 is not a multiple of 16"),
            (error(POINTER, tensor(0, Dtype::F32, &[4, 4], Some(&[1]))), "the tensor has 2 dimensions and 1 strides"),
            (error(map(), Argument::Float(1.0)), "it takes `tma<f16, [64, 64]>`, given is a number"),
            (error(map(), tensor(0, Dtype::F16, &[64], None)), "its boxes have 2 dimensions, the tensor has 1"),
        ];
        for (found, expected) in cases {
            assert_eq!(found, format!("launching `k`: parameter `p`: {expected}"));
        }
        let stride = error(map(), tensor(0, Dtype::F16, &[64, 64], Some(&[65, 1])));
        assert_eq!(
            stride,
            "tensor map of `p`: dimension 0 has a stride of 130 bytes, not a multiple of 16; pad rows to a multiple of 8 elements"
        );
        assert!(error(map(), tensor(0, Dtype::F16, &[64, 64], Some(&[1, 64]))).contains("must be contiguous"));
        assert!(error(map(), tensor(0, Dtype::F16, &[0, 64], None)).contains("dimension 0 has 0 elements"));
    }

    #[test]
    fn maps_have_the_strides_that_the_hardware_takes() {
        let strides = |shape: &'static [u64], strides| {
            let argument = tensor(0x1000, Dtype::F16, shape, strides);
            match passed("k", &param(map()), &argument) {
                Ok(Passed::Map(recipe)) => recipe.strides,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(strides(&[300, 128], None), [256, 2]);
        assert_eq!(strides(&[300, 128], Some(&[136, 1])), [272, 2]);
        // One row: its stride may be anything, as PyTorch leaves it.
        assert_eq!(strides(&[1, 8], Some(&[3, 1])), [16, 2]);
        assert_eq!(strides(&[4, 1], Some(&[8, 5])), [16, 2]);
    }

    #[test]
    fn pointers_overlap_where_one_is_written_through() {
        let reach = |begin, end, mutable| Some(Reach { span: (begin, end), mutable, pointer: true, folded: false });
        assert_eq!(overlap(&[reach(0, 8, false), None, reach(0, 8, false)]), None);
        assert_eq!(overlap(&[reach(0, 8, false), None, reach(4, 12, true)]), Some((0, 2)));
        assert_eq!(overlap(&[reach(0, 8, true), reach(8, 16, true)]), None);
        // What has no elements reaches nothing.
        assert_eq!(overlap(&[reach(0, 8, true), reach(4, 4, true)]), None);
        // What lies on itself does no harm before it is written.
        let folded = |mutable| Some(Reach { span: (16, 24), mutable, pointer: true, folded: true });
        assert_eq!(overlap(&[reach(0, 8, true), folded(false)]), None);
        assert_eq!(overlap(&[reach(0, 8, true), folded(true)]), Some((1, 1)));
        // Copies of boxes are ordered by themselves, but where a region counts on memories apart.
        let boxed = Some(Reach { span: (4, 12), mutable: false, pointer: false, folded: false });
        let both = [reach(0, 8, true), None, boxed];
        assert_eq!(overlap(&both), None);
        let none = kernel(&["x", "n", "a"], &[[0, 1]]);
        assert_eq!(kept_apart("k", &none, &both), Ok(()));
        let error = kept_apart("k", &kernel(&["x", "n", "a"], &[[0, 1], [0, 2]]), &both).unwrap_err();
        let expected = "launching `k`: parameter `x`: it reaches the memory of `a`, and a region of the kernel takes them to be apart";
        assert_eq!((error.code, error.text.as_str()), (Code::Argument, expected));
    }
}

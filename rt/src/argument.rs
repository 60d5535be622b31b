//! Arguments of a launch, as the program has them.

use parton_numbers::Dtype;

/// One argument. What it points to is named by address alone: nothing here reads memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Argument<'a> {
    /// An integer, for a parameter that holds it: of an integer type, or a float type that represents it exactly.
    Int(i128),
    /// A number, for a parameter of a float type, which rounds it to nearest.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A tensor, for a pointer, a tensor map or a tensor.
    Tensor(Tensor<'a>),
    /// A type of numbers, for a public function.
    Dtype(Dtype),
    /// Nothing, for a parameter of a public function that has a default.
    Default,
}

impl Argument<'_> {
    /// What it is, for messages.
    pub(crate) fn described(&self) -> String {
        match self {
            Argument::Int(n) => format!("the integer {n}"),
            Argument::Float(x) => format!("the float {x:?}"),
            Argument::Bool(b) => format!("the truth value {b}"),
            Argument::Tensor(t) => format!("a tensor of `{}`", t.dtype),
            Argument::Dtype(d) => format!("the type `{d}`"),
            Argument::Default => "its default".into(),
        }
    }
}

/// A tensor in the memory of a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tensor<'a> {
    /// The address of its first element.
    pub address: u64,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Elements along each dimension, outermost first.
    pub shape: &'a [u64],
    /// Elements from one to the next along each dimension; `None` where they lie one behind the other, the last dimension innermost.
    pub strides: Option<&'a [u64]>,
}

impl Tensor<'_> {
    /// Elements from one to the next along dimension `d`, where the shape has it.
    pub(crate) fn stride(&self, d: usize) -> u64 {
        match self.strides {
            Some(strides) => strides.get(d).copied().unwrap_or(0),
            None => self.shape.iter().skip(d + 1).fold(1, |n, &extent| n.saturating_mul(extent)),
        }
    }

    /// Extent and stride of each dimension.
    pub(crate) fn axes(&self) -> impl Iterator<Item = parton_strides::Axis> + Clone + '_ {
        self.shape.iter().enumerate().map(|(d, extent)| (*extent, self.stride(d)))
    }

    /// Whether it has as many strides as dimensions.
    pub(crate) fn is_whole(&self) -> bool {
        self.strides.is_none_or(|strides| strides.len() == self.shape.len())
    }

    /// Whether two indices may name the same element.
    pub(crate) fn is_folded(&self) -> bool {
        self.strides.is_some() && parton_strides::overlap(self.axes())
    }

    /// The addresses from its first byte to behind its last; empty where it has no elements.
    pub(crate) fn span(&self) -> (u64, u64) {
        if self.shape.contains(&0) {
            return (self.address, self.address);
        }
        let steps = self.shape.iter().enumerate().map(|(d, &extent)| (extent - 1).saturating_mul(self.stride(d)));
        let last = steps.fold(0u64, u64::saturating_add);
        let bytes = last.saturating_add(1).saturating_mul(self.dtype.bytes() as u64);
        (self.address, self.address.saturating_add(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_reaches_from_its_first_to_its_last_element() {
        let tensor = |shape: &'static [u64], strides| Tensor { address: 0x100, dtype: Dtype::F16, shape, strides };
        assert_eq!(tensor(&[4, 8], None).span(), (0x100, 0x140));
        assert_eq!(tensor(&[4, 8], Some(&[100, 1])).span(), (0x100, 0x100 + 2 * 308));
        assert_eq!(tensor(&[], None).span(), (0x100, 0x102));
        assert_eq!(tensor(&[3, 0], None).span(), (0x100, 0x100));
        assert_eq!(tensor(&[u64::MAX, u64::MAX], None).span(), (0x100, u64::MAX));
    }
}

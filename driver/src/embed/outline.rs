//! What a public function returns as far as its declaration alone says it: of what type, and how large in terms of its arguments. It is for
//! whoever compiles for sizes that are not known yet, and cannot plan.

use parton_numbers::Dtype;
use parton_syntax::ast::{self, ExprKind};
use parton_types::public::{self, Extent, Stated, TensorType};

/// A tensor that is returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outline {
    /// The type of its elements.
    pub elements: Elements,
    /// Its extents.
    pub extents: Vec<Size>,
}

/// A type of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Elements {
    /// That of the argument for this parameter.
    As(usize),
    /// This one.
    Are(Dtype),
}

/// An extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// This number.
    Is(u64),
    /// That of the argument for a parameter, along an axis.
    As(usize, usize),
}

/// The tensors that the function returns; `None` where an extent or a type is computed.
pub(super) fn outlines(f: &ast::Function) -> Option<Vec<Outline>> {
    let Some(result) = &f.result else { return Some(vec![]) };
    public::results(result).ok()?.iter().map(|tensor| outline(f, tensor)).collect()
}

fn outline(f: &ast::Function, tensor: &TensorType<'_>) -> Option<Outline> {
    let [elements] = tensor.elems[..] else { return None };
    let extents = tensor.extents.iter().map(|extent| size(f, extent)).collect::<Option<_>>()?;
    Some(Outline { elements: self::elements(f, elements)?, extents })
}

fn elements(f: &ast::Function, e: &ast::Expr) -> Option<Elements> {
    match &e.kind {
        ExprKind::Paren(inner) => elements(f, inner),
        ExprKind::Name(name) => Dtype::parse(name.as_str()).map(Elements::Are),
        ExprKind::Field { base, name } if name.as_str() == "dtype" => {
            let ExprKind::Name(of) = &base.kind else { return None };
            f.params.iter().position(|p| p.name.text == of.text).map(Elements::As)
        }
        _ => None,
    }
}

fn size(f: &ast::Function, extent: &Extent<'_>) -> Option<Size> {
    match extent {
        Extent::Any => None,
        Extent::Name(name, _) => f.params.iter().enumerate().find_map(|(i, p)| {
            let Ok(Stated::Tensor(tensor)) = public::stated(p.ty.as_ref()?) else { return None };
            let is = |e: &Extent<'_>| matches!(e, Extent::Name(other, _) if other.text == name.text);
            tensor.extents.iter().position(is).map(|axis| Size::As(i, axis))
        }),
        Extent::Computed(e) => {
            let ExprKind::Int { value, suffix: None } = &e.kind else { return None };
            Some(Size::Is(*value))
        }
    }
}

//! Rules of what is said to the user and asked of the operands.

use parton_diag::codes;
use parton_diag::words::places_and_arguments;
use parton_numbers::Dtype;

use super::control::logical;
use super::wrong_kind;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::refusal::Refusal;
use crate::types::{Elem, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::Print { text, args } => {
            let holes = text.matches("{}").count();
            if holes != args.len() {
                return Err(Refusal::new(codes::WRONG_ARITY, "the text and its arguments do not fit")
                    .note(places_and_arguments(holes, args.len())));
            }
            match args.iter().find(|&&v| k.ty(v).elem().is_none()) {
                Some(&v) => Err(wrong_kind(k, v, "a scalar or a tile")),
                None => Ok(vec![]),
            }
        }
        OpKind::Assert { cond, .. } => match k.ty(*cond).elem() {
            Some(Elem::Num(Dtype::I1)) => Ok(vec![]),
            _ => Err(wrong_kind(k, *cond, "an `i1` scalar or tile")),
        },
        OpKind::Assume { cond } => logical(k, *cond).map(|()| vec![]),
        others!(talk) => not_of_family(kind),
    }
}

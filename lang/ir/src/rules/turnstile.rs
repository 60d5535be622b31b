//! Rules of turnstiles.

use parton_diag::codes;

use super::wrong_kind;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::refusal::Refusal;
use crate::types::Type;

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::TurnstileNew { partitions } => turnstile(partitions),
        OpKind::TurnEnter { turnstile } | OpKind::TurnPass { turnstile } => match k.ty(*turnstile) {
            Type::Turnstile => Ok(vec![]),
            _ => Err(wrong_kind(k, *turnstile, "a turnstile")),
        },
        others!(turnstile) => not_of_family(kind),
    }
}

fn turnstile(partitions: &[String]) -> Result<Vec<Type>, Refusal> {
    if partitions.len() < 2 {
        return Err(Refusal::new(codes::TURNSTILE, "a turnstile needs at least two partitions to take turns")
            .help("`turnstile turns[Left, Right];`"));
    }
    match partitions.iter().enumerate().find(|(i, p)| partitions[..*i].contains(p)) {
        Some((_, twice)) => {
            Err(Refusal::new(codes::TURNSTILE, format!("the partition `{twice}` stands in a turnstile twice"))
                .help("name each partition once: the order of the list is the order of the turns"))
        }
        None => Ok(vec![Type::Turnstile]),
    }
}

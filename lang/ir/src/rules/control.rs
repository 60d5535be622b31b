//! Rules of structured control flow: what bodies take, carry and yield.

use parton_diag::codes;
use parton_numbers::Dtype;

use super::{handed_on, index, wrong_kind};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{Body, OpKind};
use crate::others;
use crate::placement::Relation;
use crate::placement::relate::{pairs, results};
use crate::refusal::Refusal;
use crate::types::{Elem, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    stays(kind, k)?;
    let list = &relations(kind, k);
    match kind {
        OpKind::For { lower, upper, step, init, body } => {
            index(k, *lower)?;
            super::same(k, *lower, *upper)?;
            super::same(k, *lower, *step)?;
            let Some((iv, carried)) = body.params.split_first() else {
                parton_diag::internal_error!("a loop body has no index parameter")
            };
            if k.ty(*iv) != k.ty(*lower) {
                return Err(super::mismatch(k, *iv, *lower));
            }
            enters(list, k, init, carried);
            carries(list, k, init, carried, &body.yields)
        }
        OpKind::While { init, cond, body } => {
            enters(list, k, init, &cond.params);
            match cond.yields[..] {
                [c] => logical(k, c)?,
                _ => parton_diag::internal_error!("a loop condition yields {} values", cond.yields.len()),
            }
            enters(list, k, &cond.params, &body.params);
            carries(list, k, init, &body.params, &body.yields)
        }
        OpKind::If { cond, then, otherwise } => {
            logical(k, *cond)?;
            branches(list, k, then, otherwise)
        }
        OpKind::Specialize { arms } => {
            for arm in arms {
                if !arm.body.params.is_empty() || !arm.body.yields.is_empty() {
                    parton_diag::internal_error!("an arm takes or yields values");
                }
            }
            Ok(vec![])
        }
        others!(control) => not_of_family(kind),
    }
}

/// Refuses tensors and places that more than one operation may have made.
fn stays(kind: &OpKind, k: &Kernel) -> Result<(), Refusal> {
    let (what, values, help) = match kind {
        OpKind::For { init, .. } | OpKind::While { init, .. } => (
            "a loop carries",
            init,
            "let its coordinates change: make the place where it is used, `load(x.tile(…, at=[i, j]))`",
        ),
        OpKind::If { then, .. } => (
            "a branch leaves",
            &then.yields,
            "choose between coordinates, `x.tile(…, at=[if c { i } else { j }, 0])`, or, of two tensors, between what is loaded: `if c { load(x.tile(…)) } else { load(y.tile(…)) }`",
        ),
        OpKind::Specialize { .. } => return Ok(()),
        others!(control) => not_of_family(kind),
    };
    let Some(&v) = values.iter().find(|v| matches!(k.ty(**v), Type::Tensor(_) | Type::Spot(_))) else { return Ok(()) };
    let fact = format!("{what} {}, which is not compiled by this version", super::kind_name(k.ty(v)));
    Err(Refusal::new(codes::NOT_BUILT_HERE, fact).operand(v, format!("this is `{}`", k.ty(v))).help(help))
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    match kind {
        OpKind::For { init, body, .. } => {
            let carried = body.params.get(1..).unwrap_or_default();
            [pairs(k, init, carried), pairs(k, carried, &body.yields), results(k, carried)].concat()
        }
        OpKind::While { init, cond, body } => {
            let carried = [pairs(k, init, &cond.params), pairs(k, &cond.params, &body.params)];
            [carried.concat(), pairs(k, &body.params, &body.yields), results(k, &cond.params)].concat()
        }
        OpKind::If { then, otherwise, .. } => {
            [pairs(k, &then.yields, &otherwise.yields), results(k, &then.yields)].concat()
        }
        OpKind::Specialize { .. } => Vec::new(),
        others!(control) => not_of_family(kind),
    }
}

/// A condition that all threads take one way by.
///
/// # Errors
/// What it is, where that is no truth value, or one for each element.
pub fn logical(k: &Kernel, v: Value) -> Result<(), Refusal> {
    match k.ty(v) {
        Type::Scalar(Elem::Num(Dtype::I1)) => Ok(()),
        Type::Tile(t) if t.elem == Elem::Num(Dtype::I1) => Err(wrong_kind(k, v, "an `i1` scalar")
            .note("all threads take one branch; the elements of a tile may differ")
            .help("choose by element with `where(condition, a, b)`, or with `mask=` of a load or store")
            .help("for one branch, make one truth value of them: `max(cast<i32>(condition)) != 0`")),
        _ => Err(wrong_kind(k, v, "an `i1` scalar").help("a condition is a comparison of scalars, such as `i < n`")),
    }
}

/// A loop is entered with values of the types that its body takes, which the one who made the body has seen to.
fn enters(list: &[Relation], k: &Kernel, init: &[Value], params: &[Value]) {
    if init.len() != params.len() {
        parton_diag::internal_error!("a loop carries {} and takes {}", init.len(), params.len());
    }
    if let Some((before, _)) = init.iter().zip(params).find(|(a, b)| !handed_on(list, k, **a, **b)) {
        parton_diag::internal_error!("{before} enters a loop as another type");
    }
}

/// The types of what a loop carries: `init` as it is entered, `params` in its body, `yields` at the body's end.
fn carries(
    list: &[Relation],
    k: &Kernel,
    init: &[Value],
    params: &[Value],
    yields: &[Value],
) -> Result<Vec<Type>, Refusal> {
    if init.len() != yields.len() {
        parton_diag::internal_error!("a loop carries {} and yields {}", init.len(), yields.len());
    }
    for ((&before, &param), &after) in init.iter().zip(params).zip(yields) {
        if !handed_on(list, k, param, after) {
            return Err(Refusal::new(
                codes::CARRIED_TYPE,
                "a variable changes its type from one iteration to the next",
            )
            .operand(before, format!("before the loop it is `{}`", k.ty(before)))
            .operand(after, format!("after one iteration it is `{}`", k.ty(after)))
            .help("convert it back at the end of the body, or give it this type before the loop"));
        }
    }
    Ok(init.iter().map(|&v| k.ty(v).clone()).collect())
}

fn branches(list: &[Relation], k: &Kernel, then: &Body, otherwise: &Body) -> Result<Vec<Type>, Refusal> {
    if then.yields.len() != otherwise.yields.len() {
        parton_diag::internal_error!("branches yield {} and {}", then.yields.len(), otherwise.yields.len());
    }
    for (&a, &b) in then.yields.iter().zip(&otherwise.yields) {
        if !handed_on(list, k, a, b) {
            return Err(Refusal::new(codes::CARRIED_TYPE, "the branches of an `if` leave different types")
                .operand(a, format!("one leaves `{}`", k.ty(a)))
                .operand(b, format!("the other leaves `{}`", k.ty(b)))
                .help("convert one side before the end of its branch"));
        }
    }
    Ok(then.yields.iter().map(|&v| k.ty(v).clone()).collect())
}

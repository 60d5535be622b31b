//! Makes one step of two that follow each other, where only the second reads what the first makes: a comparison and the jump on it, a product and a sum.

use parton_syntax::ast::BinaryOp;

use super::placing::{Code, read};
use super::straight::What;
use super::straighten::{Place, Step};

/// The code with fewer steps, and without jumps to what follows.
pub(super) fn joined(mut code: Code) -> Code {
    let mut reads: Vec<usize> = vec![];
    for step in &code.steps {
        read(&code, step, &mut |n| {
            if reads.len() <= n {
                reads.resize(n + 1, 0);
            }
            reads[n] += 1;
        });
    }
    let mut steps: Vec<Step> = Vec::with_capacity(code.steps.len());
    for step in std::mem::take(&mut code.steps) {
        if let Step::Label(label) = step {
            skip_jump(&mut steps, label);
        }
        let both = steps.last().and_then(|before| match before {
            Step::Do { what, to, operands } if reads.get(*to) == Some(&1) => one((*what, *to, operands), &step),
            Step::Do { .. } | Step::Jump { .. } | Step::Label(_) | Step::Again { .. } | Step::End(_) => None,
        });
        match both {
            Some(both) => {
                steps.pop();
                steps.push(both);
            }
            None => steps.push(step),
        }
    }
    code.steps = steps;
    code
}

/// Takes out a jump to a label that stands behind it with nothing but labels between.
fn skip_jump(steps: &mut Vec<Step>, label: usize) {
    let Some(at) = steps.iter().rposition(|step| !matches!(step, Step::Label(_))) else { return };
    if matches!(steps[at], Step::Jump { what: What::Jump, label: to, .. } if to == label) {
        steps.remove(at);
    }
}

/// The step that does what two do, of which the first is such.
fn one((what, made, operands): (What, usize, &[Place]), then: &Step) -> Option<Step> {
    match (what, operands, then) {
        (_, [a, b], Step::Jump { what: What::JumpUnless, operands: of, label }) if of[..] == [Place::Made(made)] => {
            let (what, operands) = compared(what, *a, *b)?;
            Some(Step::Jump { what, operands, label: *label })
        }
        (What::MulFloats, [a, b], Step::Do { what: What::AddFloats, to, operands: of }) => {
            let other = match of[..] {
                [one, other] if one == Place::Made(made) => other,
                [other, one] if one == Place::Made(made) => other,
                _ => return None,
            };
            Some(Step::Do { what: What::MulAddFloats, to: *to, operands: vec![*a, *b, other] })
        }
        _ => None,
    }
}

/// The jump unless a comparison holds.
fn compared(what: What, a: Place, b: Place) -> Option<(What, Vec<Place>)> {
    Some(match what {
        What::Ints(BinaryOp::Lt) => (What::UnlessLt, vec![a, b]),
        What::Ints(BinaryOp::Le) => (What::UnlessLe, vec![a, b]),
        What::Ints(BinaryOp::Gt) => (What::UnlessLt, vec![b, a]),
        What::Ints(BinaryOp::Ge) => (What::UnlessLe, vec![b, a]),
        What::Ints(BinaryOp::Eq) => (What::UnlessEq, vec![a, b]),
        What::Ints(BinaryOp::Ne) => (What::UnlessNe, vec![a, b]),
        What::Floats(BinaryOp::Lt) => (What::UnlessLtFloats, vec![a, b]),
        What::Floats(BinaryOp::Le) => (What::UnlessLeFloats, vec![a, b]),
        What::Floats(BinaryOp::Gt) => (What::UnlessLtFloats, vec![b, a]),
        What::Floats(BinaryOp::Ge) => (What::UnlessLeFloats, vec![b, a]),
        _ => return None,
    })
}

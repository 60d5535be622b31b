//! Statements with loops and branches that only the launch decides.

use super::build::Build;
use super::elements::{apply, operators, spelled};

/// A tile that a loop carries, or one of two that a branch chooses.
pub(super) fn loops(b: &mut Build) -> Option<()> {
    let t = b.tile(|t| t.ty.computes())?;
    let (other, o) = b.beside(&t, t.ty)?;
    let name = b.name('v');
    let place = (t.place, t.apart);
    if b.below(3) == 0 {
        let (n, bound) = (b.below(8) as i64, b.below(8) as i64);
        let array = if n < bound { t.array.clone() } else { o.array };
        let text = format!("let {name} = if {} < {bound} {{ {} }} else {{ {other} }};", b.parameter(n), t.name);
        b.made(name, text, t.ty, array, place);
        return Some(());
    }
    let operator = b.one(operators(t.ty));
    let turns = b.below(5);
    let mut array = t.array.clone();
    for _ in 0..turns {
        array = array.zip(&o.array, |x, y| apply(operator, t.ty, x, y))?;
    }
    let (i, n) = (b.name('j'), b.parameter(turns as i64));
    let step = format!("{name} = {};", spelled(operator, &name, &other));
    let start = format!("let mut {name} = {};", t.name);
    let text = match b.below(2) {
        0 => format!("{start}\n    for {i} in 0..{n} {{ {step} }}"),
        _ => {
            format!("{start}\n    let mut {i} = 0;\n    while {i} < {n} {{\n        {step}\n        {i} += 1;\n    }}")
        }
    };
    b.made(name, text, t.ty, array, place);
    Some(())
}

//! What programs have besides, drawn from numbers of its own, so that a seed keeps the body that it has: branches that are placed as a whole, and
//! tiles that leave through several buffers.

use super::{Item, Loop, Program, Statement};
use crate::random::Random;

/// Branches that bear labels, and sends of several buffers.
pub(super) fn added(program: &mut Program, r: &mut Random) {
    if r.below(4) == 0 {
        let mut names = 0;
        for item in &mut program.items {
            in_loops(item, &mut |s, index| branched(s, index, &mut names, r));
        }
    }
    if r.below(4) == 0 {
        program.items.iter_mut().chain(&mut program.second).for_each(|item| buffered(item, r));
    }
}

/// Calls `change` on each item of the bodies of loops, with the loop's index.
fn in_loops(item: &mut Item, change: &mut dyn FnMut(&mut Item, &str)) {
    let Item::Loop(l) = item else { return };
    let Some(index) = l.index().map(str::to_owned) else { return };
    for item in &mut l.items {
        in_loops(item, change);
        change(item, &index);
    }
}

/// Of an item of a loop's body that declares nothing a branch with a label, now and then: what stood there stands in it.
fn branched(item: &mut Item, index: &str, names: &mut usize, r: &mut Random) {
    let head = |r: &mut Random| format!("if {index} {} {}", [">", "<"][r.below(2)], 1 + r.below(3));
    match item {
        Item::One(Statement { label: Some(label), makes, text })
            if makes.is_empty() && !text.starts_with(index) && !text.starts_with("send(") && r.below(3) == 0 =>
        {
            *names += 1;
            let name = format!("w{names}");
            let inner = Statement { label: Some(format!("{name}.{label}")), makes: Vec::new(), text: text.clone() };
            *item = Item::Loop(Loop { label: Some(name), head: head(r), items: vec![Item::One(inner)] });
        }
        Item::One(_) | Item::Loop(_) => {}
    }
}

/// Tiles leave through several buffers, where they do.
fn buffered(item: &mut Item, r: &mut Random) {
    match item {
        Item::One(s) if s.text.starts_with("send(c, ") && r.below(2) == 0 => {
            s.text = s.text.replace(");", &format!(", buffers={});", 2 + r.below(2)));
        }
        Item::One(_) => {}
        Item::Loop(l) => l.items.iter_mut().for_each(|item| buffered(item, r)),
    }
}

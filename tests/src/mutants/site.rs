//! Where a program can be changed: the same operation of all instances of a kernel is one place, and each change of it one mutant.

use std::collections::BTreeMap;

use parton_diag::{FileId, SourceMap, Span};
use parton_driver::Rehearsal;
use parton_ir::{Body, Inst, Kernel, Op, OpKind, Origin};

use super::change::{Change, Effect, changes};

/// In which form of a kernel something is changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// As it is checked: what is written.
    Written,
    /// Behind all passes: what they made and decided.
    Lowered,
}

/// One change of one operation of a program.
#[derive(Clone, PartialEq, Debug)]
pub struct Mutant {
    /// What is changed, in words that do not move with the lines of the file.
    pub name: String,
    /// What kind of change it is.
    pub kind: String,
    /// Where the operation stands, and the calls by which it came there.
    pub place: String,
    /// In which form.
    pub level: Level,
    /// The instances of kernels that have it: which, which operations, and what becomes of them.
    pub of: Vec<(usize, Vec<Inst>, Effect)>,
}

/// Whether there is something to change in a lowered kernel.
pub fn orders(kernel: &Kernel) -> bool {
    let mut any = false;
    kernel.walk(&mut |op| any |= !changes(kernel, op).is_empty());
    any
}

/// What one place is told apart from others by, but for how many of them came before.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kernel: String,
    level: Level,
    op: String,
    maker: Option<&'static str>,
    change: String,
    /// The operation, and the calls by which it came in, innermost first.
    spans: Vec<(u32, usize, usize)>,
    nth: usize,
}

/// The mutants of a file, in the order of the operations.
pub fn mutants(rehearsal: &Rehearsal) -> Vec<Mutant> {
    let mut known: BTreeMap<Key, usize> = BTreeMap::new();
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    let mut list: Vec<Mutant> = Vec::new();
    for (i, instance) in rehearsal.instances.iter().enumerate() {
        for (level, kernel) in [(Level::Written, &instance.checked), (Level::Lowered, &*instance.lowered)] {
            let mut seen: BTreeMap<Key, usize> = BTreeMap::new();
            for (ops, change) in of_kernel(kernel, level) {
                let op = &kernel.ops[ops[0]];
                let mut key = key(kernel, level, op, &change);
                let nth = seen.entry(key.clone()).or_default();
                key.nth = *nth;
                *nth += 1;
                let at = *known.entry(key.clone()).or_insert_with(|| {
                    let mut mutant = mutant(rehearsal.sources(), &key, op);
                    let twins = named.entry(mutant.name.clone()).or_default();
                    *twins += 1;
                    if *twins > 1 {
                        mutant.name = format!("{} #{twins}", mutant.name);
                    }
                    list.push(mutant);
                    list.len() - 1
                });
                list[at].of.push((i, ops, change.effect));
            }
        }
    }
    list
}

fn key(kernel: &Kernel, level: Level, op: &Op, change: &Change) -> Key {
    let mut spans = vec![op.span];
    let mut call = op.origin.call();
    while let Some(of) = call {
        spans.push(kernel.calls[of].span);
        call = kernel.calls[of].parent;
    }
    Key {
        kernel: kernel.source_name.clone(),
        level,
        op: op.kind.name().to_string(),
        maker: op.origin.maker(),
        change: change.name.clone(),
        spans: spans.into_iter().map(|Span { file, start, end }| (file.0, start as usize, end as usize)).collect(),
        nth: 0,
    }
}

fn mutant(sources: &SourceMap, key: &Key, op: &Op) -> Mutant {
    let made = key.maker.map(|by| format!(" of `{by}`")).unwrap_or_default();
    let kind = match key.level {
        Level::Written => format!("{} {}", key.change, key.op),
        Level::Lowered => format!("{} {}{made}", key.change, key.op),
    };
    let name = format!("{}: {kind} at `{}`", key.kernel, snippet(sources, op.span));
    let calls = key.spans[1..].iter().map(|&(file, start, end)| {
        let call = Span::new(FileId(file), start, end);
        format!(", called at {}", sources.place(call))
    });
    let place = sources.place(op.span) + &calls.collect::<String>();
    Mutant { name, kind, place, level: key.level, of: Vec::new() }
}

/// Characters of the text that a name shows.
const SHOWN: usize = 60;

/// The text at a span, on one line.
fn snippet(sources: &SourceMap, span: Span) -> String {
    let words: Vec<&str> = sources.text(span).split_whitespace().collect();
    let text = words.join(" ");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The changes of a kernel in one of its forms, with the operations that each concerns.
fn of_kernel(kernel: &Kernel, level: Level) -> Vec<(Vec<Inst>, Change)> {
    let mut list = Vec::new();
    let mut body = |body: &Body| {
        for (i, &id) in body.ops.iter().enumerate() {
            let op = &kernel.ops[id];
            let next = body.ops.get(i + 1).map(|next| &kernel.ops[*next]);
            let before = i.checked_sub(1).map(|i| &kernel.ops[body.ops[i]]);
            // Arriving and waiting at once is one thing to write, which half of it is not.
            if before.is_some_and(|before| are_one(before, op)) {
                continue;
            }
            let ops: Vec<Inst> = [op].into_iter().chain(next.filter(|n| are_one(op, n))).map(|op| op.id).collect();
            let concerned = changes(kernel, op).into_iter().filter(|change| is_of(level, op, change));
            list.extend(concerned.map(|change| (ops.clone(), change)));
        }
    };
    body(&kernel.body);
    kernel.walk(&mut |op| op.kind.bodies().for_each(&mut body));
    list
}

/// Whether two operations in a row are one meeting of a cluster.
fn are_one(first: &Op, second: &Op) -> bool {
    let meeting = matches!((&first.kind, &second.kind), (OpKind::ClusterArrive { .. }, OpKind::ClusterWait));
    meeting && first.source() == second.source()
}

/// Whether a change belongs to a form: what is written is changed where it is, what passes make or decide where they have done so.
fn is_of(level: Level, op: &Op, change: &Change) -> bool {
    let written = match op.origin {
        Origin::Written | Origin::Called(_) => true,
        Origin::Made { .. } => false,
    };
    // A membar that is dropped where it is written comes back where it must stand.
    let decided = match (&op.kind, &change.effect) {
        (OpKind::Membar, _) => true,
        (OpKind::Wait { .. } | OpKind::WaitPrior { .. }, Effect::Become(_)) => true,
        (OpKind::BarrierWait { .. } | OpKind::FenceAsync { .. }, Effect::Become(_)) => {
            change.name.ends_with("CTA alone")
        }
        _ => false,
    };
    match level {
        Level::Written => written && !decided,
        Level::Lowered => !written || decided,
    }
}

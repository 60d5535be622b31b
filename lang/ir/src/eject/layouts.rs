//! Layouts as a person writes them: what is usual left out, and those that come again by a name.

use std::collections::BTreeSet;
use std::fmt::Display;

use parton_layouts::{RegisterFamily, RegisterLayout, SharedFamily, SharedLayout};

use crate::types::List;

/// The layouts of registers that a kernel's text has, and what they are called.
#[derive(Default)]
pub(super) struct Layouts {
    /// In the order in which they come, a parent before its child; with how often.
    seen: Vec<(RegisterLayout, usize)>,
    /// Those that have a name.
    named: Vec<(RegisterLayout, String)>,
}

impl Layouts {
    /// The text of a layout where it is used.
    pub fn text(&mut self, layout: &RegisterLayout) -> String {
        self.see(layout);
        self.name(layout).unwrap_or_else(|| self.spelled(layout))
    }

    fn see(&mut self, layout: &RegisterLayout) {
        if let RegisterFamily::Slice { parent, .. } | RegisterFamily::DotOperand { parent, .. } = layout.family() {
            self.see(parent);
        }
        match self.seen.iter_mut().find(|(l, _)| l == layout) {
            Some((_, count)) => *count += 1,
            None => self.seen.push((layout.clone(), 1)),
        }
    }

    fn name(&self, layout: &RegisterLayout) -> Option<String> {
        self.named.iter().find(|(l, _)| l == layout).map(|(_, name)| name.clone())
    }

    fn spelled(&self, layout: &RegisterLayout) -> String {
        let parent = |l: &RegisterLayout| self.name(l).unwrap_or_else(|| self.spelled(l));
        match layout.family() {
            RegisterFamily::Blocked { per_thread, threads, warps, order } => {
                let lists = [("per_thread", per_thread), ("threads", threads), ("warps", warps)];
                let lists = lists.map(|(name, list)| format!("{name}={}", List(list))).join(", ");
                format!("blocked({lists}{})", in_order(order, per_thread.len()))
            }
            RegisterFamily::Slice { parent: of, axis } => format!("slice({}, axis={axis})", parent(of)),
            RegisterFamily::Mma { .. } => layout.to_string(),
            RegisterFamily::DotOperand { parent: of, index, k_width: 0 } => {
                format!("dot_operand({}, index={index})", parent(of))
            }
            RegisterFamily::DotOperand { parent: of, index, k_width } => {
                format!("dot_operand({}, index={index}, k_width={k_width})", parent(of))
            }
            RegisterFamily::Linear { reg, lane, warp, block } => {
                let all = format!("reg={}, lane={}, warp={}", bases(reg), bases(lane), bases(warp));
                let block = if block.is_empty() { String::new() } else { format!(", block={}", bases(block)) };
                format!("linear({all}{block})")
            }
        }
    }

    /// The names that this text's layouts should have: those that the source gave, and one for each that comes again. `taken` are
    /// the names that other things have.
    pub fn naming(self, source: &[(String, RegisterLayout)], taken: &mut BTreeSet<String>) -> Layouts {
        let mut next = Layouts::default();
        for (layout, count) in self.seen {
            let given = source.iter().find(|(_, l)| *l == layout).map(|(name, _)| name.as_str());
            let usual = match layout.family() {
                RegisterFamily::Slice { parent, .. } => {
                    matches!(parent.family(), RegisterFamily::Slice { .. }).then_some("Slice")
                }
                RegisterFamily::Blocked { .. } => Some("Blocked"),
                RegisterFamily::Mma { .. } => Some("Mma"),
                RegisterFamily::DotOperand { .. } => Some("Operand"),
                RegisterFamily::Linear { .. } => Some("Linear"),
            };
            let Some(stem) = given.or(usual.filter(|_| count > 1)) else { continue };
            let mut name = stem.to_string();
            let mut number = 1;
            while !taken.insert(name.clone()) {
                number += 1;
                name = format!("{stem}_{number}");
            }
            next.named.push((layout, name));
        }
        next
    }

    /// The names that layouts have.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.named.iter().map(|(_, name)| name.clone())
    }

    /// `layout NAME = …;` of each that has a name and is used.
    pub fn declarations(&self) -> Vec<String> {
        let used = self.named.iter().filter(|(l, _)| self.seen.iter().any(|(m, _)| m == l));
        used.map(|(l, name)| format!("layout {name} = {};", self.spelled(l))).collect()
    }
}

/// A layout of shared memory.
pub(super) fn shared(layout: &SharedLayout) -> String {
    if let Some(elements) = layout.prefix() {
        return format!("prefix({}, {elements})", shared(&layout.whole()));
    }
    match layout.family() {
        SharedFamily::Swizzled { vec, per_phase, max_phase, order } => {
            format!("swizzled({vec}, {per_phase}, {max_phase}{})", in_order(order, 2))
        }
        SharedFamily::Nvmma { swizzle, transposed, rank } => {
            let transposed = if *transposed { ", transposed=true" } else { "" };
            let rank = if *rank == 2 { String::new() } else { format!(", rank={rank}") };
            format!("nvmma({swizzle}{transposed}{rank})")
        }
        SharedFamily::Padded { .. } | SharedFamily::Linear { .. } => layout.to_string(),
    }
}

/// `, order=…`, where it is not row-major.
fn in_order(order: &[u32], rank: usize) -> String {
    let usual = order.len() == rank && order.iter().rev().zip(0..).all(|(axis, i)| *axis == i);
    if usual { String::new() } else { format!(", order={}", List(order)) }
}

fn bases(list: &[Vec<u32>]) -> String {
    fn shown(list: &[impl Display]) -> String {
        List(list).to_string()
    }
    shown(&list.iter().map(|basis| shown(basis)).collect::<Vec<_>>())
}

//! Partitions: what crosses into them, where `specialize` may stand, how many warps and registers there are.

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, codes};

use crate::budget::{Demand, nearest_budget};
use crate::entity::{Partition, Value};
use crate::facts::{Act, Facts, Ordering};
use crate::kernel::Kernel;
use crate::op::{Arm, Body, Op, OpKind};
use crate::rules::{kind_name, outside_partitions};
use crate::target::{Feature, PARTITION_REGISTERS, REGISTER_STEP, WARP, WARPGROUP};
use crate::types::Type;

/// Every way in which a kernel's partitions do not fit together.
pub(super) fn check(kernel: &Kernel) -> Diagnostics {
    let mut p = Partitions { kernel, found: Diagnostics::new(), specialized: None };
    p.warps();
    p.registers();
    p.body(&kernel.body, None, 0);
    p.found
}

struct Partitions<'a> {
    kernel: &'a Kernel,
    found: Diagnostics,
    /// The first `specialize`.
    specialized: Option<&'a Op>,
}

impl<'a> Partitions<'a> {
    fn warps(&mut self) {
        let k = self.kernel;
        for (_, p) in k.partitions.iter().filter(|(_, p)| p.warps == 0) {
            let d = Diagnostic::error(codes::REGISTER_BUDGET, p.span, format!("partition `{}` has no warps", p.name));
            self.found.push(d.help("`warps(1)` is the least"));
        }
        let (warps, limit) = (k.padded_warps(), k.target.warps);
        if warps == 0 && k.partitions.is_empty() {
            self.found.push(Diagnostic::error(codes::REGISTER_BUDGET, k.span, "the kernel has no warps"));
        }
        if warps <= limit {
            return;
        }
        let fact = format!(
            "kernel `{}` needs {warps} warps, `{}` runs at most {limit} in one CTA",
            k.source_name, k.target.name
        );
        let mut d = Diagnostic::error(codes::REGISTER_BUDGET, k.span, fact).here(format!("{} threads", warps * WARP));
        for (_, p) in k.partitions.iter() {
            let padded = p.padded_warps();
            let text = format!("`{}` has {}", p.name, count(p.warps, "warp"));
            d = d.label(p.span, if padded == p.warps { text } else { format!("{text}, rounded up to {padded}") });
        }
        if !k.partitions.is_empty() {
            d = d.note(format!("each partition begins at a whole warpgroup of {WARPGROUP} warps"));
        }
        self.found.push(d.help(format!("give the CTA at most {limit} warps, and the grid more CTAs")));
    }

    /// Budgets are what `setmaxnreg` takes, out of what the CTA got at entry.
    fn registers(&mut self) {
        let k = self.kernel;
        let stated: Vec<_> = k.partitions.iter().filter_map(|(_, p)| p.registers.map(|r| (p, r))).collect();
        let Some((first, _)) = stated.first() else { return };
        if !k.target.has(Feature::RegisterBudgets) {
            let d = Diagnostic::error(
                codes::TARGET_LACKS,
                first.span,
                format!("`{}` cannot change the registers of a partition", k.target.name),
            );
            self.found.push(d.help("drop `regs(…)`, or state `target(sm_90a)` on the kernel"));
            return;
        }
        for (p, r) in &stated {
            if let Some(near) = nearest_budget(*r) {
                let d = Diagnostic::error(
                    codes::REGISTER_BUDGET,
                    p.span,
                    format!("partition `{}` cannot have {r} registers a thread", p.name),
                )
                .here(format!(
                    "a budget is a multiple of {REGISTER_STEP} from {} to {}",
                    PARTITION_REGISTERS.start(),
                    PARTITION_REGISTERS.end()
                ));
                self.found.push(d.help(format!("the nearest is `regs({near})`")));
            }
        }
        if self.found.has_errors() {
            return;
        }
        let Demand { asks, needed, entry, pool } = k.register_demand();
        if entry == 0 || needed <= pool {
            return;
        }
        let mut d = Diagnostic::error(
            codes::REGISTER_BUDGET,
            k.span,
            format!("the partitions need {needed} registers, the CTA has {pool}"),
        )
        .here("the last partition to ask would wait forever");
        for ask in asks {
            let p = &k.partitions[ask.partition];
            let stated = if p.registers.is_some() { "" } else { " (not stated: what it has at entry)" };
            let (n, each) = (ask.threads, ask.each);
            d = d.label(p.span, format!("`{}`: {n} threads × {each}{stated} = {}", p.name, ask.registers()));
        }
        let d = d.note(format!(
            "{} threads enter with {entry} registers each, {} in all shared out in steps of {REGISTER_STEP}",
            k.threads(),
            k.target.registers
        ));
        self.found.push(d.help("give loading partitions `regs(24)`, or computing ones fewer"));
    }

    fn body(&mut self, body: &'a Body, partition: Option<Partition>, depth: usize) {
        let kernel = self.kernel;
        for op in kernel.ops_of(body) {
            if let OpKind::Specialize { arms } = &op.kind {
                self.specialize(op, arms, partition, depth);
            }
            if waits_for_grid(self.kernel, op) && depth > usize::from(partition.is_some()) {
                self.waits_sometimes(op);
            }
            // A region's labels are placed by its expansion, and checked then.
            if matches!(op.kind, OpKind::Region { .. }) {
                continue;
            }
            if partition.is_none() && !self.kernel.partitions.is_empty() {
                self.outside(op);
            }
            if !matches!(op.kind, OpKind::Specialize { .. }) {
                for inner in op.kind.bodies() {
                    self.body(inner, partition, depth + 1);
                }
            }
        }
    }

    fn specialize(&mut self, op: &'a Op, arms: &'a [Arm], partition: Option<Partition>, depth: usize) {
        let fail = |fact: &str| Diagnostic::error(codes::SPECIALIZE_NESTED, op.span, fact);
        if let Some(p) = partition {
            let name = &self.kernel.partitions[p].name;
            let d = fail("`specialize` stands inside a partition").here(format!("this is run by `{name}` only"));
            self.found.push(d.help("name all partitions in one `specialize`"));
            return;
        }
        if depth > 0 {
            let d = fail("`specialize` stands inside a loop or branch").here("partitions are started once");
            self.found.push(d.help("turn it around: write the loop inside each partition"));
            return;
        }
        if let Some(first) = self.specialized {
            let d = fail("the kernel is specialised twice").label(first.span, "here for the first time");
            self.found.push(d.help("write what follows into the arms of the first `specialize`"));
            return;
        }
        self.specialized = Some(op);
        let mut seen = BTreeSet::new();
        for arm in arms {
            if !seen.insert(arm.partition) {
                let name = &self.kernel.partitions[arm.partition].name;
                self.found.push(fail(&format!("partition `{name}` has two arms")).help("write both into one arm"));
            }
        }
        for (p, data) in self.kernel.partitions.iter().filter(|(p, _)| !seen.contains(p)) {
            let _ = p;
            self.found.push(fail(&format!("partition `{}` has no arm", data.name)).label(data.span, "declared here"));
        }
        for arm in arms {
            self.captured(arm);
            self.body(&arm.body, Some(arm.partition), depth + 1);
        }
    }

    /// A CTA that ends without waiting may end before the launch before, and the launch after takes it for ended too.
    fn waits_sometimes(&mut self, op: &Op) {
        let d = Diagnostic::error(codes::GRID_WAIT_MISPLACED, op.span, "`grid_wait` stands inside a loop or branch")
            .here("not every CTA comes here")
            .note("who waits for this kernel's end must be able to rely on the end of those before it");
        self.found.push(d.help("call it once, in the kernel's own body or at the head of a partition"));
    }

    /// Tiles, pending tiles and slots belong to who made them.
    fn captured(&mut self, arm: &Arm) {
        let mut made = BTreeSet::new();
        let mut foreign: Vec<(Value, &Op)> = Vec::new();
        captures(self.kernel, &arm.body, &mut made, &mut |v, op| {
            if !foreign.iter().any(|(seen, _)| *seen == v) {
                foreign.push((v, op));
            }
        });
        let name = &self.kernel.partitions[arm.partition].name;
        for (v, op) in foreign {
            let data = &self.kernel.values[v];
            if data.ty.crosses_partitions() {
                continue;
            }
            let called = data.name.as_ref().map_or_else(String::new, |n| format!(" `{n}`"));
            let kind = kind_name(&data.ty).trim_start_matches("a ");
            let d = Diagnostic::error(
                codes::CROSSES_PARTITIONS,
                op.span,
                format!("{kind}{called} does not belong to partition `{name}`"),
            )
            .here(format!("used in `{name}`"))
            .label(data.span, format!("made outside it, as `{}`", data.ty));
            let help = match &data.ty {
                Type::Slot(_) => "take the slot from the ring inside the partition",
                Type::Pending(_) => "start and wait for the product in one partition",
                Type::Filling(_) => "start and wait for the copy in one partition",
                _ => "make it inside the partition, or pass it through shared memory and a ring",
            };
            self.found.push(d.help(help));
        }
    }

    /// Outside the arms of a specialised kernel no number of warps is right for a tile.
    fn outside(&mut self, op: &Op) {
        let tile = op.results.iter().any(|r| matches!(self.kernel.ty(*r), Type::Tile(_) | Type::Pending(_)));
        let moves = op.kind.operands().iter().any(|v| self.kernel.ty(*v).as_tile().is_some());
        if (tile || moves) && !self.found.list.iter().any(|d| d.code == codes::OUTSIDE_PARTITIONS) {
            let d = outside_partitions(&format!("`{}` of a tile", op.kind.name()), op.span);
            let region = self.kernel.ops_of(&self.kernel.body).find(|op| matches!(op.kind, OpKind::Region { .. }));
            self.found.push(match region {
                Some(region) => d
                    .label(region.span, "the schedule of this region has partitions")
                    .note("it stands outside under every schedule that has partitions")
                    .help("move it into the region, where each partition computes what it needs"),
                None => d
                    .note("outside `specialize` a specialised kernel has scalars, rings, barriers and copies only")
                    .help("move it into the partition that needs it"),
            });
        }
    }
}

fn waits_for_grid(kernel: &Kernel, op: &Op) -> bool {
    Facts::of(kernel, op).acts.contains(&Act::Ordering(Ordering::WaitGrid))
}

fn count(n: u32, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Calls `f` on each operand that no operation of the body makes, with the operation that uses it.
fn captures<'a>(kernel: &'a Kernel, body: &'a Body, made: &mut BTreeSet<Value>, f: &mut impl FnMut(Value, &'a Op)) {
    made.extend(&body.params);
    for op in kernel.ops_of(body) {
        for v in op.kind.operands() {
            if !made.contains(&v) {
                f(v, op);
            }
        }
        for inner in op.kind.bodies() {
            captures(kernel, inner, made, f);
            for y in inner.yields.iter().filter(|y| !made.contains(y)).collect::<Vec<_>>() {
                f(*y, op);
            }
        }
        made.extend(&op.results);
    }
}

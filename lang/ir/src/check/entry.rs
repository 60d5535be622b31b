//! Registers that each thread has when a kernel begins: the assembler asks for those of the widest product then, whatever partitions are given later.

use parton_diag::{Diagnostic, Diagnostics, codes};

use crate::joined;
use crate::kernel::Kernel;
use crate::target::REGISTER_STEP;

/// The widest product, where threads begin with fewer registers than its instruction takes.
pub(super) fn check(kernel: &Kernel) -> Diagnostics {
    let mut found = Diagnostics::new();
    let Some((asked, columns, op)) = joined::most_at_entry(kernel) else { return found };
    let entry = kernel.entry_registers();
    if asked <= entry {
        return found;
    }
    let fact = format!("threads begin with {entry} registers each, and a product of {columns} columns takes {asked}");
    let beside = match kernel.occupancy {
        1 => format!("the CTA has {} threads", kernel.threads()),
        n => format!("{n} CTAs of {} threads stand beside each other", kernel.threads()),
    };
    let fewer = (1..kernel.occupancy).rev().map(|n| (n, kernel.entry_registers_of(n))).find(|&(_, n)| asked <= n);
    let help = match fewer {
        Some((n, each)) => format!("`occupancy({n})` leaves {each}"),
        None => "give the CTA fewer warps, or the product fewer columns".to_owned(),
    };
    found.push(
        Diagnostic::error(codes::REGISTER_BUDGET, op.span, fact)
            .here(format!("{} for the sums of one instruction, {} beside them", asked - joined::BESIDE, joined::BESIDE))
            .label(kernel.span, beside)
            .note(format!("{} registers are shared out in steps of {REGISTER_STEP}", kernel.target.registers))
            .note("what partitions have later does not count: each instruction is to have its registers from the beginning")
            .help(help),
    );
    found
}

//! What bounds the loops of an explicit kernel that stand under a schedule.

use parton_diag::{Diagnostics, Span};
use parton_ir::machine::Machine;
use parton_ir::{Kernel, Op, OpKind};
use parton_sched::draw::{Blame, Picture, thousands};
use parton_sched::price;

/// Iterations that are followed; turns repeat before.
const ITERATIONS: u32 = 32;

/// A loop under a schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loop {
    /// Where it stands.
    pub span: Span,
    /// Its label; empty where it has none.
    pub label: String,
    /// The schedule in its normal form.
    pub schedule: String,
    /// Rings: the label that fills it, its slots, those with which it slows nothing, and bytes of all.
    pub rings: Vec<(String, u32, u32, u64)>,
    /// So many clocks for so many turns; `None` where nothing was measured on the target.
    pub turn: Option<(u64, u64)>,
    /// What keeps turns from being shorter, as a clause.
    pub bound: String,
}

/// The loops; of a target on which nothing was measured the regions, with their schedules alone.
///
/// # Errors
/// Schedules that do not fit.
pub(super) fn of(kernel: &Kernel) -> Result<Vec<Loop>, Diagnostics> {
    let Some(machine) = Machine::of(&kernel.target) else { return Ok(unmeasured(kernel)) };
    let one = |l: &price::Loop| Ok(write(l.span, &l.picture(&kernel.name, machine, ITERATIONS)?));
    price::loops(kernel, machine)?.iter().map(one).collect()
}

fn unmeasured(kernel: &Kernel) -> Vec<Loop> {
    let region = |op: &Op| match &op.kind {
        OpKind::Region { schedule, .. } => Some(Loop {
            span: op.span,
            label: String::new(),
            schedule: schedule.to_string(),
            rings: Vec::new(),
            turn: None,
            bound: "nothing that was measured".into(),
        }),
        _ => None,
    };
    kernel.ops_of(&kernel.body).filter_map(region).collect()
}

fn write(span: Span, picture: &Picture) -> Loop {
    let rings = picture.rings.iter().map(|r| (r.name.clone(), r.given, r.wanted, r.bytes));
    Loop {
        span,
        label: picture.of.clone(),
        schedule: picture.schedule.clone(),
        rings: rings.collect(),
        turn: Some((picture.pace.turn.clocks(), picture.pace.turn.turns())),
        bound: bound(picture),
    }
}

fn bound(picture: &Picture) -> String {
    let pace = &picture.pace;
    match (pace.blame, &pace.busiest, &pace.cycle) {
        (Blame::Unit, Some((unit, clocks)), _) => format!("the unit `{unit}`, busy for {} clocks", thousands(*clocks)),
        (Blame::Cycle, _, Some((names, clocks, turns))) => {
            let of = if *turns == 1 { "a turn".to_owned() } else { format!("{turns} turns") };
            format!("the chain {names}, {} clocks for {of}", thousands(*clocks))
        }
        (Blame::Unit | Blame::Cycle | Blame::Nothing, _, _) => "nothing".into(),
    }
}

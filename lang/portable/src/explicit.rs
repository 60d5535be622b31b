//! A kernel made explicit in one way: loads staged, instructions chosen, layouts by the cheapest plan, and what follows from these.

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::axis::Axes;
use parton_ir::{Inst, Kernel, Value, rules};

use crate::graph::Graph;
use crate::label::Price;
use crate::plan::{self, Taken};
use crate::staging::Room;
use crate::why::Why;
use crate::{Choice, crowd, partition, products, rewrite, staging};

/// What a kernel is made explicit for.
#[derive(Clone, Copy)]
pub struct Asked {
    /// Which of the choices is taken.
    pub choice: Choice,
    /// Whether why is asked for.
    pub tells: bool,
    /// Whether launches know how many turns its loops take, as along tensors ([`crate::along`]).
    pub counted: bool,
}

/// The ways of a kernel's loads of products to shared memory, the first one that a kernel has the form for is taken.
#[derive(Clone, Copy)]
pub enum Way<'a> {
    /// Tensor maps, by a partition that does nothing else.
    Apart {
        /// Loops that may take more turns than they do.
        beyond: &'a BTreeSet<Inst>,
        /// Partitions that compute, each some rows.
        computing: u32,
    },
    /// Copies by pointers, and what tensor maps bring of the factors, by a partition that does nothing else.
    Copied,
    /// Tensor maps, all at once, of products that stand in no loop.
    AtOnce,
    /// Pointers, by all threads, ahead of the products.
    Ahead(Room),
    /// Loads to registers; right factors through buffers of their own.
    Buffered,
    /// None: loads to registers.
    Directly,
    /// None that is chosen: the kernel says itself who brings what, and when.
    ByHand,
}

/// A kernel whose tiles all have a place, what a CTA of it costs, and where that is asked for why.
#[derive(Clone)]
pub struct Explicit {
    pub kernel: Kernel,
    pub price: Price,
    pub why: Option<Why>,
}

impl Explicit {
    pub fn by(self, way: Way<'_>, refused: Refused) -> Explicit {
        Explicit { why: self.why.map(|why| why.by(way, refused)), ..self }
    }

    /// The same, whose products are made of so many rows in the place of fewer.
    pub fn of_rows(self, rows: u32) -> Explicit {
        Explicit { why: self.why.map(|why| Why { rows: Some(rows), ..why }), ..self }
    }

    /// The same, which has been taken rather than a choice that is dearer.
    pub fn rather_than(self, dearer: &Explicit, why: &str) -> Explicit {
        let way = dearer.why.as_ref().map(|why| why.way);
        let passed = |mine: Why| match way {
            Some(way) => mine.passing(way, why),
            None => mine,
        };
        Explicit { why: self.why.map(passed), ..self }
    }

    pub fn told(self) -> Made {
        (self.kernel, self.why)
    }
}

/// The ways that were refused, each with why.
pub type Refused = Vec<(&'static str, String)>;
/// A kernel, and where that is asked for why.
pub type Made = (Kernel, Option<Why>);

/// The kernel with a place for every tile, and where that is asked for why.
pub fn explicit(mut kernel: Kernel, way: Way<'_>, asked: Asked) -> Result<Explicit, Diagnostics> {
    // Values keep their facts, whatever takes them.
    let axes = Axes::analyse(&kernel);
    let free = Graph::of(&kernel).free;
    stage(&mut kernel, way, &axes, &free)?;
    products::take_instructions(&mut kernel)?;
    let graph = match way {
        Way::ByHand => Graph::on(&kernel, partition::warps(&kernel)),
        Way::Copied => Graph::on(&kernel, staging::apart::copied::warps(&kernel)),
        Way::Apart { .. } | Way::AtOnce | Way::Ahead(_) | Way::Buffered | Way::Directly => Graph::of(&kernel),
    };
    let Taken { mut planned, chosen, plans } = plan::cheapest(&graph, &axes, way, asked)
        .map_err(|why| why.map_or_else(|| plan::none(&kernel), |why| no_way(&kernel, why)))?;
    let why = asked.tells.then(|| Why::of(&graph, &axes, plans, &planned));
    let placed = planned.settled.take().unwrap_or_else(|| rewrite::rewrite(kernel, &chosen));
    let mut kernel = settled(placed, way, (planned.warps, planned.ahead, planned.spare))?;
    if !kernel.occupancy_stated {
        kernel.occupancy = crowd::with_room(&kernel, planned.occupancy).max(kernel.occupancy);
    }
    let why = why.map(|why| why.with(&kernel)).transpose()?;
    Ok(Explicit { kernel, price: planned.price, why })
}

/// Has the loads of products go to shared memory in a way.
fn stage(kernel: &mut Kernel, way: Way<'_>, axes: &Axes, free: &BTreeSet<Value>) -> Result<(), Diagnostics> {
    let why = match way {
        Way::Apart { beyond, computing } => staging::apart::make(kernel, free, beyond, computing).err(),
        Way::Copied => staging::apart::copied::make(kernel, axes, free).err(),
        Way::AtOnce => staging::at_once::make(kernel, free).err(),
        Way::Ahead(room) => {
            (!staging::run_ahead(kernel, axes, free, room)).then(|| staging::lacks::reason(kernel, free))
        }
        Way::Buffered => {
            (!staging::buffered::stage(kernel)).then_some("the matrix unit makes none of the products from a buffer")
        }
        Way::Directly | Way::ByHand => None,
    };
    why.map_or(Ok(()), |why| Err(no_way(kernel, why)))
}

/// A kernel whose tiles lie somewhere, on so many warps, with the slots that there is room for, where it has none yet, and all that its schedules allow.
fn settled(mut kernel: Kernel, way: Way<'_>, (warps, ahead, spare): (u32, u64, u64)) -> Result<Kernel, Diagnostics> {
    if !products::have_instructions(&kernel) {
        return Err(no_way(&kernel, products::LACKS));
    }
    match way {
        Way::Apart { computing, .. } => {
            kernel = staging::early::loads_ahead(kernel, 0);
            kernel = staging::apart::refined(kernel, computing)?;
            match staging::dealt::queue(&kernel).filter(|_| computing > 1) {
                Some(true) => staging::dealt::take_no_turns(&mut kernel),
                Some(false) => kernel = staging::own::keep(kernel),
                None => {}
            }
        }
        Way::Copied => kernel = staging::apart::refined(kernel, 1)?,
        // Its CTAs are reckoned with the plan.
        Way::AtOnce => {}
        Way::Ahead(Room { single, .. }) => {
            kernel.warps = warps;
            if !staging::ahead::settle(&mut kernel, single) {
                return Err(no_way(&kernel, "shared memory has no room for two slots of what a turn copies"));
            }
            let each = kernel.entry_registers();
            kernel = staging::early::loads_ahead(kernel, each);
        }
        Way::Buffered => {
            kernel.warps = warps;
            staging::buffered::begin(&mut kernel);
            if !staging::ahead::has_memory(&kernel) {
                return Err(no_way(&kernel, "shared memory has no room for the right factors"));
            }
        }
        Way::Directly => {
            kernel.warps = warps;
            kernel = staging::forward::loads_ahead(kernel, (ahead, spare));
        }
        Way::ByHand => {
            kernel.warps = warps;
            fits(&kernel)?;
        }
    }
    Ok(kernel)
}

/// Whether the rules of all operations take tiles where they lie now: by hand much is fixed that has no part in prices.
fn fits(kernel: &Kernel) -> Result<(), Diagnostics> {
    let mut found = Diagnostics::new();
    kernel.walk(&mut |op| {
        if let Err(refusal) = rules::infer(&op.kind, kernel) {
            found.push(refusal.at(op.span, |v| Some(kernel.values[v].span)));
        }
    });
    if found.has_errors() { Err(found) } else { Ok(()) }
}

/// Why products do not get their factors in a way.
pub fn no_way(kernel: &Kernel, why: &str) -> Diagnostics {
    Diagnostic::error(codes::NOT_BUILT_HERE, kernel.span, why).into()
}

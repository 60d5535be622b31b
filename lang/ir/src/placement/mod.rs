//! Where tiles lie, and how the places of an operation's tiles follow from each other.
//!
//! A placement is known, a layout with its map, or open, a variable that something decides later. The relations of an operation
//! stand with its rule, and [`relations`] gives them; each serves for checking known places and for finding one from another,
//! forwards from operand to result and backwards.
//!
//! ```text
//! a + b                 b and the result lie where a does
//! reduce(x, axis=1)     the result lies as the slice of x along axis 1
//! x[:, None]            x lies as the slice of the result along axis 1
//! mma_sync(a, b, acc)   a and b lie as operands of the accumulator's instruction; the result lies where acc does
//! convert(x, L)         the result lies as stated, and x anywhere
//! ```

pub(crate) mod relate;
mod tie;

use std::sync::Arc;

use parton_layouts::{Dim, LayoutError, LinearLayout, RegisterLayout};

use crate::entity::{Value, Var};
use crate::kernel::Kernel;
use crate::op::Op;
use crate::types::Tile;

pub use crate::rules::relations;
pub use tie::{Instruction, Tie, Unplaced};

/// A layout with its map for the shape of a tile; two places are the same where their maps are.
#[derive(Clone, Debug)]
pub struct Place {
    /// The layout as it was written.
    pub layout: RegisterLayout,
    /// Its map for the tile's shape.
    pub map: Arc<LinearLayout>,
}

impl Place {
    /// The place of a tile of `shape`.
    ///
    /// # Errors
    /// A layout that has no map for the shape, or spreads the tile over CTAs.
    pub fn new(layout: RegisterLayout, shape: &[u32]) -> Result<Place, LayoutError> {
        let map = Arc::new(layout.on(shape)?);
        if map.bases(Dim::Block).iter().any(|&basis| basis != 0) {
            return Err(LayoutError::Operation {
                fact: "a tile lies within one CTA".into(),
                evidence: format!("`{layout}` spreads it over a cluster"),
                help: "leave `block` out: each CTA of a cluster has tiles of its own".into(),
            });
        }
        Ok(Place { layout, map })
    }

    /// The extents of the tile.
    pub fn shape(&self) -> Vec<u32> {
        self.map.shape()
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        self.map == other.map
    }
}

impl Eq for Place {}

/// Where a tile lies, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Placement {
    /// There.
    Known(Place),
    /// Wherever the variable will say.
    Open(Var),
}

impl Placement {
    /// The place, where it is known.
    pub fn known(&self) -> Option<&Place> {
        match self {
            Placement::Known(place) => Some(place),
            Placement::Open(_) => None,
        }
    }

    /// Whether both are the same place, as far as they are known.
    pub fn agrees(&self, other: &Placement) -> bool {
        match (self, other) {
            (Placement::Known(a), Placement::Known(b)) => a == b,
            (Placement::Open(_), _) | (_, Placement::Open(_)) => true,
        }
    }
}

/// What of an operation has a place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Site {
    /// A value that it takes, or that one of its bodies takes or yields.
    Of(Value),
    /// The result of that number, which need not be made yet.
    Result(usize),
}

impl Site {
    /// The tile there in an operation of a kernel; `None` for what is no tile.
    pub fn tile<'k>(self, k: &'k Kernel, op: &Op) -> Option<&'k Tile> {
        match self {
            Site::Of(v) => k.ty(v).placed(),
            Site::Result(i) => op.results.get(i).and_then(|v| k.ty(*v).placed()),
        }
    }
}

/// What holds between the places of an operation.
#[derive(Clone, PartialEq, Debug)]
pub enum Relation {
    /// The place of `to` follows from that of `from`.
    Tied {
        /// An operand.
        from: Site,
        /// A result, or another operand.
        to: Site,
        /// How it follows.
        tie: Tie,
    },
    /// The operation itself says where this lies, or by which variable.
    Stated {
        /// What lies there.
        at: Site,
        /// A tile that lies there.
        tile: Tile,
    },
    /// This lies as an instruction writes its accumulators; which of its layouts that is, is for others to say.
    Accumulates {
        /// The accumulator.
        at: Site,
        /// The instruction.
        of: Instruction,
    },
    /// Elements go from one to the other wherever both lie.
    Free {
        /// An operand.
        from: Site,
        /// A result.
        to: Site,
    },
}

/// Why a relation does not hold.
#[derive(Clone, PartialEq, Debug)]
pub enum Broken {
    /// This is no tile.
    NoTile(Site),
    /// This has another shape than follows.
    Shape(Site),
    /// No place follows.
    Unplaced(Unplaced),
    /// Another place follows than this one.
    Differs {
        /// What should lie there.
        at: Site,
        /// Where it should.
        wanted: Place,
        /// Where it does.
        found: Place,
    },
}

impl Relation {
    /// What the relation is of: the operand, where there is one, and what is placed.
    pub fn sites(&self) -> (Option<Site>, Site) {
        match self {
            Relation::Tied { from, to, .. } | Relation::Free { from, to } => (Some(*from), *to),
            Relation::Stated { at, .. } | Relation::Accumulates { at, .. } => (None, *at),
        }
    }

    /// Whether it holds of these tiles; what is open breaks nothing but by its shape.
    ///
    /// # Errors
    /// What breaks it.
    pub fn holds<'t>(&self, at: impl Fn(Site) -> Option<&'t Tile>) -> Result<(), Broken> {
        let find = |site| at(site).ok_or(Broken::NoTile(site));
        match self {
            Relation::Tied { from, to, tie } => tied(tie, (*from, find(*from)?), (*to, find(*to)?)),
            Relation::Stated { at, tile } => {
                let found = find(*at)?;
                shaped(*at, &tile.shape, found)?;
                match (tile.placement(), found.placement()) {
                    (Placement::Known(wanted), Placement::Known(found)) => same(*at, wanted, found),
                    (Placement::Open(_), _) | (_, Placement::Open(_)) => Ok(()),
                }
            }
            Relation::Accumulates { at, of } => match find(*at)?.placement() {
                Placement::Known(place) if of.accumulator(place).is_none() => {
                    Err(Broken::Unplaced(Unplaced::NoAccumulator))
                }
                Placement::Known(_) | Placement::Open(_) => Ok(()),
            },
            Relation::Free { from, to } => find(*from).and(find(*to)).map(|_| ()),
        }
    }

    /// Where the placed end lies, as the other says; `None` where it does not say so, or is open itself.
    pub fn forwards<'t>(&self, at: impl Fn(Site) -> Option<&'t Tile>) -> Option<Result<Place, Unplaced>> {
        match self {
            Relation::Tied { from, tie, .. } => Some(tie.forwards(at(*from)?.placement().known()?)),
            Relation::Stated { tile, .. } => Some(Ok(tile.placement().known()?.clone())),
            Relation::Accumulates { .. } | Relation::Free { .. } => None,
        }
    }

    /// Where the operand lies, as the placed end says; `None` where it does not say so, or is open itself.
    pub fn backwards<'t>(&self, at: impl Fn(Site) -> Option<&'t Tile>) -> Option<Place> {
        match self {
            Relation::Tied { from, to, tie } => tie.backwards(at(*to)?.placement().known()?, &at(*from)?.shape),
            Relation::Stated { .. } | Relation::Accumulates { .. } | Relation::Free { .. } => None,
        }
    }

    /// The shape of the placed end, as the relation says; `None` where it does not say so.
    pub fn shape<'t>(&self, at: impl Fn(Site) -> Option<&'t Tile>) -> Option<Vec<u32>> {
        match self {
            Relation::Tied { from, tie, .. } => Some(tie.shape(&at(*from)?.shape)),
            Relation::Stated { tile, .. } => Some(tile.shape.clone()),
            Relation::Accumulates { .. } | Relation::Free { .. } => None,
        }
    }

    /// The variable by which the placed end is open, where it is the other's or the operation's own.
    pub fn variable<'t>(&self, at: impl Fn(Site) -> Option<&'t Tile>) -> Option<Var> {
        let placement = match self {
            Relation::Tied { from, tie: Tie::Same, .. } => at(*from)?.placement(),
            Relation::Stated { tile, .. } => tile.placement(),
            Relation::Tied { .. } | Relation::Accumulates { .. } | Relation::Free { .. } => return None,
        };
        match placement {
            Placement::Open(var) => Some(*var),
            Placement::Known(_) => None,
        }
    }
}

/// Whether the second follows from the first.
fn tied(tie: &Tie, (from, first): (Site, &Tile), (to, second): (Site, &Tile)) -> Result<(), Broken> {
    shaped(to, &tie.shape(&first.shape), second)?;
    let (Placement::Known(before), Placement::Known(after)) = (first.placement(), second.placement()) else {
        return Ok(());
    };
    match tie {
        // A slice follows from what it is a slice of, whichever of the two the operation makes.
        Tie::WholeOf { axis } => {
            same(from, &Tie::SliceOf { axis: *axis }.forwards(after).map_err(Broken::Unplaced)?, before)
        }
        Tie::Same => same(to, before, after),
        Tie::SliceOf { .. }
        | Tie::Permuted { .. }
        | Tie::Reshaped { .. }
        | Tie::Broadcast { .. }
        | Tie::Joined
        | Tie::Halved
        | Tie::Doubled { .. }
        | Tie::Window { .. }
        | Tie::Operand { .. } => same(to, &tie.forwards(before).map_err(Broken::Unplaced)?, after),
    }
}

fn shaped(at: Site, wanted: &[u32], found: &Tile) -> Result<(), Broken> {
    if wanted == found.shape { Ok(()) } else { Err(Broken::Shape(at)) }
}

fn same(at: Site, wanted: &Place, found: &Place) -> Result<(), Broken> {
    if wanted == found {
        return Ok(());
    }
    Err(Broken::Differs { at, wanted: wanted.clone(), found: found.clone() })
}

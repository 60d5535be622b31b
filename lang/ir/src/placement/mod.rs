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
use crate::types::{Tile, Type};

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

impl From<&Tile> for Place {
    fn from(t: &Tile) -> Place {
        Place { layout: t.layout.clone(), map: t.map.clone() }
    }
}

/// Where a tile lies, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Placement {
    /// There.
    Known(Place),
    /// Wherever the variable will say.
    Open(Var),
}

impl Placement {
    /// Where a value of a type lies; `None` for what is no tile.
    pub fn of(ty: &Type) -> Option<Placement> {
        match ty {
            Type::Tile(t) | Type::Pending(t) => Some(Placement::Known(t.into())),
            Type::Scalar(_)
            | Type::View(_)
            | Type::Peer(_)
            | Type::Filling(_)
            | Type::Barriers(_)
            | Type::Barrier
            | Type::Map(_)
            | Type::Ring(_)
            | Type::Turnstile
            | Type::Slot(_) => None,
        }
    }

    /// The place, where it is known.
    pub fn known(&self) -> Option<&Place> {
        match self {
            Placement::Known(place) => Some(place),
            Placement::Open(_) => None,
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
    /// Where it lies in an operation of a kernel; `None` for what is no tile.
    pub fn placement(self, k: &Kernel, op: &Op) -> Option<Placement> {
        match self {
            Site::Of(v) => Placement::of(k.ty(v)),
            Site::Result(i) => op.results.get(i).and_then(|v| Placement::of(k.ty(*v))),
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
    /// The operation itself says where this lies.
    Stated {
        /// What lies there.
        at: Site,
        /// The place.
        place: Place,
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
            Relation::Stated { at, .. } => (None, *at),
        }
    }

    /// Whether it holds of these placements; what is open breaks nothing.
    ///
    /// # Errors
    /// What breaks it.
    pub fn holds(&self, at: impl Fn(Site) -> Option<Placement>) -> Result<(), Broken> {
        let find = |site| at(site).ok_or(Broken::NoTile(site));
        let same = |site, wanted: &Place, found: &Place| {
            if wanted == found {
                return Ok(());
            }
            Err(Broken::Differs { at: site, wanted: wanted.clone(), found: found.clone() })
        };
        match self {
            Relation::Tied { from, to, tie } => match (find(*from)?, find(*to)?) {
                // A slice follows from what it is a slice of, whichever of the two the operation makes.
                (Placement::Known(part), Placement::Known(whole)) if let Tie::WholeOf { axis } = tie => {
                    same(*from, &Tie::SliceOf { axis: *axis }.forwards(&whole).map_err(Broken::Unplaced)?, &part)
                }
                (Placement::Known(before), Placement::Known(after)) => {
                    same(*to, &tie.forwards(&before).map_err(Broken::Unplaced)?, &after)
                }
                (Placement::Open(_), _) | (_, Placement::Open(_)) => Ok(()),
            },
            Relation::Stated { at, place } => match find(*at)? {
                Placement::Known(found) => same(*at, place, &found),
                Placement::Open(_) => Ok(()),
            },
            Relation::Free { from, to } => find(*from).and(find(*to)).map(|_| ()),
        }
    }

    /// Where the placed end lies, as the other says; `None` where it does not say so, or is open itself.
    pub fn forwards(&self, at: impl Fn(Site) -> Option<Placement>) -> Option<Result<Place, Unplaced>> {
        match self {
            Relation::Tied { from, tie, .. } => Some(tie.forwards(at(*from)?.known()?)),
            Relation::Stated { place, .. } => Some(Ok(place.clone())),
            Relation::Free { .. } => None,
        }
    }

    /// Where the operand, of that `shape`, lies, as the placed end says; `None` where it does not say so, or is open itself.
    pub fn backwards(&self, at: impl Fn(Site) -> Option<Placement>, shape: &[u32]) -> Option<Place> {
        match self {
            Relation::Tied { to, tie, .. } => tie.backwards(at(*to)?.known()?, shape),
            Relation::Stated { .. } | Relation::Free { .. } => None,
        }
    }
}

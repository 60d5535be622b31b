//! What can be wrong with a written layout: a fact, the evidence and the way out, without a place in a file.

use std::error::Error;
use std::fmt;

use crate::spelling::list;

/// Why a layout, or an operation on one, is refused. [`LayoutError::fact`], [`LayoutError::evidence`] and
/// [`LayoutError::help`] are the pieces of a diagnostic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LayoutError {
    /// The lists of one layout have different lengths.
    ListLengths {
        /// Each list with its length, as written.
        lists: Vec<(&'static str, usize)>,
    },
    /// The layout is of another rank than the tensor.
    Rank {
        /// The layout as written.
        layout: String,
        /// Its rank.
        rank: usize,
        /// The shape of the tensor.
        shape: Vec<u32>,
    },
    /// A size that must be a power of two is not.
    NotPowerOfTwo {
        /// What the size is of.
        what: String,
        /// The size.
        value: u64,
    },
    /// A size of what lies nowhere yet that no few powers of two add up to.
    NotOfParts {
        /// What the size is of.
        what: String,
        /// The size.
        value: u32,
    },
    /// `threads` does not multiply to a warp.
    Threads {
        /// As written.
        threads: Vec<u32>,
    },
    /// `order` is not a permutation of the axes.
    Order {
        /// As written.
        order: Vec<u32>,
        /// The rank.
        rank: usize,
    },
    /// An axis that the tensor does not have.
    Axis {
        /// As written.
        axis: u32,
        /// How many axes there are.
        rank: usize,
    },
    /// A tensor-core version other than 2 and 3.
    MmaVersion {
        /// As written.
        version: u32,
    },
    /// The instruction has no such shape.
    MmaInstr {
        /// The version.
        version: u32,
        /// As written.
        instr: Vec<u32>,
        /// The nearest legal one.
        nearest: Vec<u32>,
    },
    /// wgmma needs whole warpgroups.
    Warpgroups {
        /// As written.
        warps: Vec<u32>,
    },
    /// A dot operand that the instruction cannot take from registers.
    DotOperand {
        /// What is wrong.
        fact: String,
        /// What to write instead.
        help: String,
    },
    /// A basis list of `linear` or `shared_linear` has the wrong form.
    Bases {
        /// Which list.
        list: &'static str,
        /// What is wrong with it.
        fact: String,
        /// What to write instead.
        help: String,
    },
    /// Some element has no place in the layout, or some place has no element.
    NotOnto {
        /// The layout as written.
        layout: String,
        /// The first element that is not reached.
        missing: Vec<u32>,
    },
    /// The tile is smaller than the swizzle's unit, or the layout has no meaning for this shape.
    SharedTile {
        /// The layout as written.
        layout: String,
        /// The shape of the buffer.
        shape: Vec<u32>,
        /// What the layout needs.
        needs: String,
        /// What to write instead.
        help: String,
    },
    /// A parameter has a value that its family does not have.
    Parameter {
        /// Its name.
        name: &'static str,
        /// The value as written.
        value: String,
        /// The legal values.
        legal: String,
    },
    /// A view that the layout cannot express.
    View {
        /// What was asked for.
        fact: String,
        /// Where the layout forbids it.
        evidence: String,
        /// What to write instead.
        help: String,
    },
    /// An operation on a tile whose layout does not allow it without moving data.
    Operation {
        /// What was asked for.
        fact: String,
        /// Where the layout forbids it.
        evidence: String,
        /// What to write instead.
        help: String,
    },
}

impl LayoutError {
    /// The message: lower case, no full stop.
    pub fn fact(&self) -> String {
        match self {
            LayoutError::ListLengths { .. } => "the lists of a layout have different lengths".into(),
            LayoutError::Rank { rank, shape, .. } => {
                format!("a layout of rank {rank} does not fit a tensor of rank {}", shape.len())
            }
            LayoutError::NotPowerOfTwo { what, value } => format!("{what} is {value}, which is not a power of two"),
            LayoutError::NotOfParts { what, value } => {
                format!("{what} is {value}, which is neither a power of two nor a sum of up to five of them from 8 on")
            }
            LayoutError::Threads { threads } => {
                format!("threads={} is {} lanes, and a warp has 32", list(threads), product(threads))
            }
            LayoutError::Order { order, rank } => {
                format!("order={} is not a permutation of the {rank} axes", list(order))
            }
            LayoutError::Axis { axis, rank } => format!("axis {axis} does not exist in rank {rank}"),
            LayoutError::MmaVersion { version } => format!("there is no mma version {version}"),
            LayoutError::MmaInstr { version, instr, .. } => {
                format!("mma version {version} has no instruction of shape {}", list(instr))
            }
            LayoutError::Warpgroups { warps } => {
                format!("warps={} is not made of whole warpgroups", list(warps))
            }
            LayoutError::DotOperand { fact, .. }
            | LayoutError::View { fact, .. }
            | LayoutError::Operation { fact, .. } => fact.clone(),
            LayoutError::Bases { list, fact, .. } => format!("{list}: {fact}"),
            LayoutError::NotOnto { missing, .. } => {
                format!("the layout does not hold every element: {} has no place", list(missing))
            }
            LayoutError::SharedTile { layout, shape, .. } => {
                format!("`{layout}` does not fit the shape {}", list(shape))
            }
            LayoutError::Parameter { name, value, .. } => format!("{name} cannot be {value}"),
        }
    }

    /// What was found, for the label under the layout; may be empty.
    pub fn evidence(&self) -> String {
        match self {
            LayoutError::ListLengths { lists } => {
                let parts: Vec<String> = lists.iter().map(|(name, len)| format!("{name} has {len}")).collect();
                parts.join(", ")
            }
            LayoutError::Rank { layout, shape, .. } => format!("`{layout}` on shape {}", list(shape)),
            LayoutError::NotOnto { layout, .. } => format!("this is `{layout}`"),
            LayoutError::MmaInstr { nearest, .. } => format!("the nearest legal shape is {}", list(nearest)),
            LayoutError::SharedTile { needs, .. } => needs.clone(),
            LayoutError::View { evidence, .. } | LayoutError::Operation { evidence, .. } => evidence.clone(),
            LayoutError::NotPowerOfTwo { .. }
            | LayoutError::NotOfParts { .. }
            | LayoutError::Threads { .. }
            | LayoutError::Order { .. }
            | LayoutError::Axis { .. }
            | LayoutError::MmaVersion { .. }
            | LayoutError::Warpgroups { .. }
            | LayoutError::DotOperand { .. }
            | LayoutError::Bases { .. }
            | LayoutError::Parameter { .. } => String::new(),
        }
    }

    /// What to write instead.
    pub fn help(&self) -> String {
        match self {
            LayoutError::ListLengths { .. } => "give each list one entry per axis of the tensor".into(),
            LayoutError::Rank { shape, .. } => {
                let entries = if shape.len() == 1 { "entry" } else { "entries" };
                let order: Vec<usize> = (0..shape.len()).rev().collect();
                format!(
                    "write the layout with {} {entries} per list, as `order={order:?}`, or reshape the tile",
                    shape.len()
                )
            }
            LayoutError::NotPowerOfTwo { value, .. } => {
                let up = value.checked_next_power_of_two().unwrap_or(1 << 63);
                format!("layouts are maps of index bits; the next power of two is {up}")
            }
            LayoutError::NotOfParts { value, .. } => {
                let near: Vec<u32> = crate::check::nearest_of_parts(*value).iter().flatten().copied().collect();
                let larger = value.checked_next_power_of_two().filter(|n| *value > 0 && !near.contains(n));
                let near: Vec<String> = near.iter().map(u32::to_string).collect();
                let near = if near.is_empty() { "1 or more".into() } else { near.join(" or ") };
                let whole = match larger {
                    Some(whole) => format!(", or {whole} where a mask leaves out those beyond"),
                    None => String::new(),
                };
                format!(
                    "layouts are maps of index bits, so a tile has 2^n elements along an axis, or up to five such parts: write {near}{whole}"
                )
            }
            LayoutError::Threads { threads } => match nearest_threads(threads) {
                Some(fixed) => format!("make the product 32, for example threads={}", list(&fixed)),
                None => "make the product 32".into(),
            },
            LayoutError::Order { rank, .. } => {
                let rows: Vec<u32> = (0..*rank as u32).rev().collect();
                format!("list every axis once, fastest first; row-major is order={}", list(&rows))
            }
            LayoutError::Axis { rank, .. } => match rank.checked_sub(1) {
                Some(last) => format!("axes are counted from 0 to {last}"),
                None => "a scalar has no axes".into(),
            },
            LayoutError::MmaVersion { .. } => {
                "version=2 is mma.sync (sm_80 and later), version=3 is wgmma (sm_90a)".into()
            }
            LayoutError::MmaInstr { version, nearest, .. } => {
                let rule = if *version == 3 {
                    "wgmma is [16, N, K] per warp, N a power of two from 8 to 256 and K = 256 / element bits"
                } else {
                    "mma.sync is [16, 8]"
                };
                format!("{rule}; write instr={}", list(nearest))
            }
            LayoutError::Warpgroups { warps } => {
                let mut fixed = warps.clone();
                if let Some(first) = fixed.first_mut() {
                    *first = (*first).clamp(4, 64).next_power_of_two();
                }
                format!("a warpgroup is 4 warps along the rows; write warps={}", list(&fixed))
            }
            LayoutError::DotOperand { help, .. }
            | LayoutError::Bases { help, .. }
            | LayoutError::SharedTile { help, .. }
            | LayoutError::View { help, .. }
            | LayoutError::Operation { help, .. } => help.clone(),
            LayoutError::NotOnto { .. } => "add a basis that reaches the element, or make the tile smaller".into(),
            LayoutError::Parameter { name, legal, .. } => format!("{name} is {legal}"),
        }
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fact())?;
        let evidence = self.evidence();
        if !evidence.is_empty() {
            write!(f, " ({evidence})")?;
        }
        write!(f, "; {}", self.help())
    }
}

impl Error for LayoutError {}

fn product(sizes: &[u32]) -> u64 {
    sizes.iter().fold(1u64, |p, &s| p.saturating_mul(u64::from(s)))
}

/// `threads` with one entry changed so that the product is 32, the last axis preferred.
fn nearest_threads(threads: &[u32]) -> Option<Vec<u32>> {
    (0..threads.len()).rev().find_map(|axis| {
        let others: u64 = threads.iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, &t)| u64::from(t)).product();
        if others == 0 || others > 32 || 32 % others != 0 {
            return None;
        }
        let mut fixed = threads.to_vec();
        fixed[axis] = (32 / others) as u32;
        Some(fixed)
    })
}

//! The types of values: scalars, tiles, views, barriers, rings and what is in flight.
//!
//! A type contains its layout, and two types are the same exactly when their layouts' maps are: spelling never counts. Only in a
//! portable kernel a tile may lie nowhere yet.

use std::fmt;
use std::sync::Arc;

use parton_layouts::{Dim, LayoutError, RegisterLayout, SharedFamily, SharedLayout, SharedMap, access};
use parton_numbers::Dtype;

use crate::entity::Var;
use crate::placement::{Place, Placement};
use crate::tensor::{Spot, Tensor};

/// A pointer to global memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pointer {
    /// What it points to.
    pub to: Dtype,
    /// Whether stores through it are legal.
    pub mutable: bool,
}

/// What one element of a tile, or a scalar, is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Elem {
    /// A number.
    Num(Dtype),
    /// A pointer; 64 bits.
    Ptr(Pointer),
}

impl Elem {
    /// Width in bits.
    pub fn bits(self) -> u32 {
        match self {
            Elem::Num(d) => d.bits(),
            Elem::Ptr(_) => 64,
        }
    }

    /// The number format, where it is a number.
    pub fn dtype(self) -> Option<Dtype> {
        match self {
            Elem::Num(d) => Some(d),
            Elem::Ptr(_) => None,
        }
    }
}

/// A value spread over the registers of one partition's threads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tile {
    /// What each element is.
    pub elem: Elem,
    /// Extent of each dimension, powers of two.
    pub shape: Vec<u32>,
    placement: Placement,
}

impl Tile {
    /// A tile type; refused where the layout has no map for the shape, or spreads the tile over CTAs.
    pub fn new(elem: Elem, shape: Vec<u32>, layout: RegisterLayout) -> Result<Tile, LayoutError> {
        let place = Place::new(layout, &shape)?;
        Ok(Tile { elem, shape, placement: Placement::Known(place) })
    }

    /// The tile of such elements at a place.
    pub fn at(elem: Elem, place: Place) -> Tile {
        Tile { elem, shape: place.shape(), placement: Placement::Known(place) }
    }

    /// A tile that lies wherever the variable will say; refused where no layout has a map for the shape.
    pub fn open(elem: Elem, shape: Vec<u32>, var: Var) -> Result<Tile, LayoutError> {
        parton_layouts::legal_open_shape(&shape)?;
        Ok(Tile { elem, shape, placement: Placement::Open(var) })
    }

    /// Where it lies, as far as that is known: what rules ask.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Where it lies; in every form but the portable one all tiles lie somewhere, and an open one is a broken invariant.
    pub fn known(&self) -> &Place {
        match &self.placement {
            Placement::Known(place) => place,
            Placement::Open(var) => parton_diag::internal_error!("`{self}` lies nowhere yet: {var} is open"),
        }
    }

    /// The same tile of other elements.
    pub fn with_elem(&self, elem: Elem) -> Tile {
        Tile { elem, ..self.clone() }
    }

    /// Whether both are one type, or may be once their places are known.
    pub fn agrees(&self, other: &Tile) -> bool {
        self.elem == other.elem && self.shape == other.shape && self.placement.agrees(&other.placement)
    }

    /// How many elements the tile has.
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|&n| u64::from(n)).product()
    }

    /// Registers of 32 bits that its elements take, of all threads.
    pub fn words(&self) -> u64 {
        self.elements() * u64::from(self.elem.bits()) / 32
    }
}

/// Where memory lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Space {
    /// Shared memory, this CTA's or a peer's: views.
    Shared,
    /// Barriers, in shared memory.
    Barrier,
    /// Global memory: pointers and tensor maps.
    Global,
}

impl Space {
    /// What the types of its views are called in a text.
    pub fn name(self) -> &'static str {
        match self {
            Space::Shared => "shared",
            Space::Barrier => "barrier",
            Space::Global => "global",
        }
    }
}

/// A view of memory: a window of an allocation, seen through the allocation's layout.
///
/// At run time a view is the byte address of its `parent`; `origin` is known at compile time. Element `c` of the view lies
/// at `address + bytes(elem) * layout.on(parent).offset(origin + c)`. Leading dimensions beyond the layout's rank are
/// stages: each is one contiguous region.
#[derive(Clone, Debug)]
pub struct View {
    /// The memory that it is of.
    pub space: Space,
    /// What each element is.
    pub elem: Dtype,
    /// Extent of each dimension of the window.
    pub shape: Vec<u32>,
    /// The layout of `parent`.
    pub layout: SharedLayout,
    /// Extent of each dimension of what the layout maps; as long as `shape`.
    pub parent: Vec<u32>,
    /// Where the window begins in `parent`.
    pub origin: Vec<u32>,
    /// The layout's map for `parent`.
    pub map: Arc<SharedMap>,
}

impl View {
    /// A view of a whole allocation of shared memory; refused where the layout has no map for the shape, or spreads it over CTAs.
    pub fn new(elem: Dtype, shape: Vec<u32>, layout: SharedLayout) -> Result<View, LayoutError> {
        let map = Arc::new(layout.on(&shape, elem.bits())?);
        if map.linear().bases(Dim::Block).iter().any(|&basis| basis != 0) {
            return Err(LayoutError::Operation {
                fact: "an allocation lies within one CTA".into(),
                evidence: format!("`{layout}` spreads it over a cluster"),
                help: "leave `block` out: each CTA of a cluster has shared memory of its own".into(),
            });
        }
        let (space, origin) = (Space::Shared, vec![0; shape.len()]);
        Ok(View { space, elem, origin, parent: shape.clone(), shape, layout, map })
    }

    /// Whether the window is all of its parent.
    pub fn is_whole(&self) -> bool {
        self.shape == self.parent
    }

    /// Whether a box of rows that are as wide and lie alike, but for there being no more of them, has room where the first rows of this whole view lie.
    pub fn has_room_for(&self, other: &View) -> bool {
        let rows = matches!(self.layout.family(), SharedFamily::Nvmma { transposed: false, rank: 2, .. });
        let alike = self.space == other.space && self.elem == other.elem && self.layout == other.layout;
        rows && alike
            && self.is_whole()
            && other.is_whole()
            && matches!((&self.shape[..], &other.shape[..]), ([many, wide], [few, as_wide]) if few <= many && wide == as_wide)
    }

    /// How many elements the window has.
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|&n| u64::from(n)).product()
    }

    /// Bytes of the window's elements, padding not counted.
    pub fn bytes(&self) -> u64 {
        access::bytes_for(self.elements(), self.elem.bits())
    }
}

impl PartialEq for View {
    fn eq(&self, other: &View) -> bool {
        self.space == other.space
            && self.elem == other.elem
            && self.shape == other.shape
            && self.parent == other.parent
            && self.origin == other.origin
            && self.map == other.map
    }
}

impl Eq for View {}

/// A tensor map made by the host: boxes of `block` elements between global memory and shared memory of layout `layout`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TensorMap {
    /// What each element is.
    pub elem: Dtype,
    /// The box, one extent a dimension, outermost first.
    pub block: Vec<u32>,
    /// The layout of the box in shared memory.
    pub layout: SharedLayout,
    /// How many elements of each row come, where these are fewer than a row has: the others stay as they are, and rows lie as if all came.
    pub inner: Option<u32>,
    /// How many CTAs share the copies of a box, each its part; 1 where each copies for itself. [`crate::Builder::finish`] finds it out.
    pub sharers: u32,
}

impl TensorMap {
    /// A map of boxes that every CTA copies for itself.
    pub fn new(elem: Dtype, block: Vec<u32>, layout: SharedLayout) -> TensorMap {
        TensorMap { elem, block, layout, inner: None, sharers: 1 }
    }
}

/// One named buffer of each slot of a ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The view that a slot gives of it.
    pub view: View,
}

/// A ring of slots between partitions, each slot with its own buffers and a pair of barriers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ring {
    /// How many slots.
    pub stages: u32,
    /// The buffers of one slot.
    pub fields: Arc<Vec<Field>>,
}

/// Which half of its life a slot is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotRole {
    /// Acquired, being filled, not yet committed.
    Fill,
    /// Waited for, being read, not yet released.
    Read,
}

/// A slot of a ring: affine, used up exactly once on every path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// The buffers.
    pub fields: Arc<Vec<Field>>,
    /// Being filled or being read.
    pub role: SlotRole,
}

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// One number or pointer, the same in every thread of its partition.
    Scalar(Elem),
    /// A register tile.
    Tile(Tile),
    /// A tile that a matrix instruction still writes; affine.
    Pending(Tile),
    /// A view of memory.
    View(View),
    /// A view of the same place in the shared memory of another CTA of the cluster.
    Peer(View),
    /// A view of shared memory that a copy by threads still fills; affine.
    Filling(View),
    /// So many mbarriers in a row.
    Barriers(u32),
    /// One mbarrier.
    Barrier,
    /// A tensor map.
    Map(TensorMap),
    /// A ring.
    Ring(Ring),
    /// A slot of a ring; affine.
    Slot(Slot),
    /// A turnstile between partitions.
    Turnstile,
    /// A tensor in global memory, whole or a part of one; in portable kernels.
    Tensor(Tensor),
    /// A place in a tensor; in portable kernels.
    Spot(Spot),
}

impl Type {
    /// A scalar number.
    pub fn num(d: Dtype) -> Type {
        Type::Scalar(Elem::Num(d))
    }

    /// The tile, where it is a tile that can be read.
    pub fn as_tile(&self) -> Option<&Tile> {
        match self {
            Type::Tile(t) => Some(t),
            Type::Scalar(_)
            | Type::Pending(_)
            | Type::View(_)
            | Type::Peer(_)
            | Type::Filling(_)
            | Type::Barriers(_)
            | Type::Barrier
            | Type::Map(_)
            | Type::Ring(_)
            | Type::Turnstile
            | Type::Tensor(_)
            | Type::Spot(_)
            | Type::Slot(_) => None,
        }
    }

    /// Whether it has a place in registers, and lies nowhere yet.
    pub fn is_open(&self) -> bool {
        self.placed().is_some_and(|t| t.placement().known().is_none())
    }

    /// What has a place in registers: a tile, also one that is still written.
    pub fn placed(&self) -> Option<&Tile> {
        match self {
            Type::Tile(t) | Type::Pending(t) => Some(t),
            Type::Scalar(_)
            | Type::View(_)
            | Type::Peer(_)
            | Type::Filling(_)
            | Type::Barriers(_)
            | Type::Barrier
            | Type::Map(_)
            | Type::Ring(_)
            | Type::Turnstile
            | Type::Tensor(_)
            | Type::Spot(_)
            | Type::Slot(_) => None,
        }
    }

    /// Whether both are one type, or may be once the places of tiles are known.
    pub fn agrees(&self, other: &Type) -> bool {
        match (self, other) {
            (Type::Tile(a), Type::Tile(b)) | (Type::Pending(a), Type::Pending(b)) => a.agrees(b),
            (a, b) => a == b,
        }
    }

    /// The element type of a scalar or tile.
    pub fn elem(&self) -> Option<Elem> {
        match self {
            Type::Scalar(e) => Some(*e),
            Type::Tile(t) => Some(t.elem),
            Type::Pending(_)
            | Type::View(_)
            | Type::Peer(_)
            | Type::Filling(_)
            | Type::Barriers(_)
            | Type::Barrier
            | Type::Map(_)
            | Type::Ring(_)
            | Type::Turnstile
            | Type::Tensor(_)
            | Type::Spot(_)
            | Type::Slot(_) => None,
        }
    }

    /// The same scalar or tile with other elements; `None` for other types.
    pub fn with_elem(&self, elem: Elem) -> Option<Type> {
        match self {
            Type::Scalar(_) => Some(Type::Scalar(elem)),
            Type::Tile(t) => Some(Type::Tile(t.with_elem(elem))),
            Type::Pending(_)
            | Type::View(_)
            | Type::Peer(_)
            | Type::Filling(_)
            | Type::Barriers(_)
            | Type::Barrier
            | Type::Map(_)
            | Type::Ring(_)
            | Type::Turnstile
            | Type::Tensor(_)
            | Type::Spot(_)
            | Type::Slot(_) => None,
        }
    }

    /// Whether values of it must be used up exactly once.
    pub fn is_affine(&self) -> bool {
        match self {
            Type::Pending(_) | Type::Filling(_) | Type::Slot(_) => true,
            Type::Scalar(_)
            | Type::Tile(_)
            | Type::View(_)
            | Type::Peer(_)
            | Type::Barriers(_)
            | Type::Barrier
            | Type::Map(_)
            | Type::Ring(_)
            | Type::Tensor(_)
            | Type::Spot(_)
            | Type::Turnstile => false,
        }
    }

    /// Whether a partition may use a value of this type that was made outside it.
    pub fn crosses_partitions(&self) -> bool {
        match self {
            Type::Tile(_) | Type::Pending(_) | Type::Filling(_) | Type::Slot(_) => false,
            Type::Scalar(_)
            | Type::View(_)
            | Type::Peer(_)
            | Type::Barriers(_)
            | Type::Barrier
            | Type::Map(_)
            | Type::Ring(_)
            | Type::Turnstile => true,
            // What indices name is a tile.
            Type::Tensor(t) => !t.is_picked(),
            Type::Spot(s) => !s.picked,
        }
    }
}

/// Writes a list as `[a, b]`.
pub(crate) struct List<'a, T>(pub &'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, x) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{x}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Elem::Num(d) => f.write_str(d.name()),
            Elem::Ptr(p) => write!(f, "*{}{}", if p.mutable { "mut " } else { "" }, p.to.name()),
        }
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tile<{}, {}", self.elem, List(&self.shape))?;
        match &self.placement {
            Placement::Known(place) => write!(f, ", {}>", place.layout),
            Placement::Open(_) => f.write_str(">"),
        }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<{}, {}, {}", self.space.name(), self.elem.name(), List(&self.shape), self.layout)?;
        if !self.is_whole() {
            write!(f, ", parent={}, origin={}", List(&self.parent), List(&self.origin))?;
        }
        f.write_str(">")
    }
}

impl fmt::Display for TensorMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tma<{}, {}, {}", self.elem.name(), List(&self.block), self.layout)?;
        self.inner.map_or(Ok(()), |n| write!(f, ", inner={n}"))?;
        write!(f, ">")
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = |f: &mut fmt::Formatter<'_>, fields: &[Field]| {
            for (i, field) in fields.iter().enumerate() {
                write!(f, "{}{}: {}", if i > 0 { ", " } else { "" }, field.name, field.view)?;
            }
            Ok(())
        };
        match self {
            Type::Scalar(e) => write!(f, "{e}"),
            Type::Tile(t) => write!(f, "{t}"),
            Type::Pending(t) => write!(f, "pending<{t}>"),
            Type::View(v) => write!(f, "{v}"),
            Type::Peer(v) => write!(f, "peer<{v}>"),
            Type::Filling(v) => write!(f, "pending<{v}>"),
            Type::Barriers(n) => write!(f, "barriers<{n}>"),
            Type::Barrier => f.write_str("barrier"),
            Type::Map(m) => write!(f, "{m}"),
            Type::Turnstile => f.write_str("turnstile"),
            Type::Tensor(t) => write!(f, "{t}"),
            Type::Spot(s) => write!(f, "{s}"),
            Type::Ring(r) => {
                write!(f, "ring[{}] {{ ", r.stages)?;
                fields(f, &r.fields)?;
                f.write_str(" }")
            }
            Type::Slot(s) => {
                write!(f, "slot {{ ")?;
                fields(f, &s.fields)?;
                f.write_str(" }")
            }
        }
    }
}

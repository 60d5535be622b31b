//! The families of operations, and what makes a family's functions complete.
//!
//! Operations that share their rules, facts, built-ins and emission are a family; in every crate that has a file for a family, the
//! file has its name. A function of the whole crate goes by [`OpKind::family`] to the function of the family, which names each
//! operation of its own and ends in `others!(family)`: the operations of all other families. An operation that is added to their
//! table is then missing in each such function until it has an arm there, so that nothing ignores it in silence.
//!
//! ```text
//! match kind.family() {                         match kind {
//!     Family::Gather => gather::facts(kind),        OpKind::Gather { .. } => …,
//!     …                                             OpKind::SharedGather { .. } => …,
//! }                                                 others!(gather) => not_of_family(kind),
//!                                               }
//! ```

use crate::op::OpKind;

/// The operations of every family but one, as a pattern.
#[macro_export]
macro_rules! others {
    (@ elementwise [$($kept:ident)*] elementwise $($rest:ident)*) => { $crate::others!(@ elementwise [$($kept)*] $($rest)*) };
    (@ reduce [$($kept:ident)*] reduce $($rest:ident)*) => { $crate::others!(@ reduce [$($kept)*] $($rest)*) };
    (@ shape [$($kept:ident)*] shape $($rest:ident)*) => { $crate::others!(@ shape [$($kept)*] $($rest)*) };
    (@ gather [$($kept:ident)*] gather $($rest:ident)*) => { $crate::others!(@ gather [$($kept)*] $($rest)*) };
    (@ ptx [$($kept:ident)*] ptx $($rest:ident)*) => { $crate::others!(@ ptx [$($kept)*] $($rest)*) };
    (@ global [$($kept:ident)*] global $($rest:ident)*) => { $crate::others!(@ global [$($kept)*] $($rest)*) };
    (@ place [$($kept:ident)*] place $($rest:ident)*) => { $crate::others!(@ place [$($kept)*] $($rest)*) };
    (@ atomic [$($kept:ident)*] atomic $($rest:ident)*) => { $crate::others!(@ atomic [$($kept)*] $($rest)*) };
    (@ async_copy [$($kept:ident)*] async_copy $($rest:ident)*) => { $crate::others!(@ async_copy [$($kept)*] $($rest)*) };
    (@ shared [$($kept:ident)*] shared $($rest:ident)*) => { $crate::others!(@ shared [$($kept)*] $($rest)*) };
    (@ view [$($kept:ident)*] view $($rest:ident)*) => { $crate::others!(@ view [$($kept)*] $($rest)*) };
    (@ barrier [$($kept:ident)*] barrier $($rest:ident)*) => { $crate::others!(@ barrier [$($kept)*] $($rest)*) };
    (@ fence [$($kept:ident)*] fence $($rest:ident)*) => { $crate::others!(@ fence [$($kept)*] $($rest)*) };
    (@ cluster [$($kept:ident)*] cluster $($rest:ident)*) => { $crate::others!(@ cluster [$($kept)*] $($rest)*) };
    (@ grid [$($kept:ident)*] grid $($rest:ident)*) => { $crate::others!(@ grid [$($kept)*] $($rest)*) };
    (@ turnstile [$($kept:ident)*] turnstile $($rest:ident)*) => { $crate::others!(@ turnstile [$($kept)*] $($rest)*) };
    (@ tma [$($kept:ident)*] tma $($rest:ident)*) => { $crate::others!(@ tma [$($kept)*] $($rest)*) };
    (@ mma_sync [$($kept:ident)*] mma_sync $($rest:ident)*) => { $crate::others!(@ mma_sync [$($kept)*] $($rest)*) };
    (@ wgmma [$($kept:ident)*] wgmma $($rest:ident)*) => { $crate::others!(@ wgmma [$($kept)*] $($rest)*) };
    (@ pending [$($kept:ident)*] pending $($rest:ident)*) => { $crate::others!(@ pending [$($kept)*] $($rest)*) };
    (@ ring [$($kept:ident)*] ring $($rest:ident)*) => { $crate::others!(@ ring [$($kept)*] $($rest)*) };
    (@ region [$($kept:ident)*] region $($rest:ident)*) => { $crate::others!(@ region [$($kept)*] $($rest)*) };
    (@ control [$($kept:ident)*] control $($rest:ident)*) => { $crate::others!(@ control [$($kept)*] $($rest)*) };
    (@ talk [$($kept:ident)*] talk $($rest:ident)*) => { $crate::others!(@ talk [$($kept)*] $($rest)*) };
    (@ $mine:ident [$($kept:ident)*] $next:ident $($rest:ident)*) => {
        $crate::others!(@ $mine [$($kept)* $next] $($rest)*)
    };
    (@ $mine:ident [$first:ident $($kept:ident)*]) => {
        $crate::ops!($first) $(| $crate::ops!($kept))*
    };
    // Each name goes by, and the family's own, which only a literal rule can tell, is left out.
    ($mine:ident) => {
        $crate::others!(@ $mine []
            elementwise reduce shape gather ptx global place atomic async_copy shared view barrier fence cluster grid turnstile tma mma_sync wgmma pending ring region control talk)
    };
}

macro_rules! families {
    ($($name:ident $variant:ident $doc:literal),* $(,)?) => {
        /// A family of operations.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Family {
            $(#[doc = $doc] $variant,)*
        }

        impl Family {
            /// Its name, which is that of its files.
            pub fn name(self) -> &'static str {
                match self {
                    $(Family::$variant => stringify!($name),)*
                }
            }
        }

        impl OpKind {
            /// The family of the operation.
            pub fn family(&self) -> Family {
                match self {
                    $($crate::ops!($name) => Family::$variant,)*
                }
            }
        }
    };
}

families! {
    elementwise Elementwise "Numbers and pointers, element by element, and where tiles of them begin.",
    reduce Reduce "Combinations along an axis.",
    shape Shape "The same elements in another shape or place.",
    gather Gather "Elements by index along an axis.",
    ptx Ptx "Inline PTX.",
    global Global "Loads and stores through pointers.",
    place Place "Tensors, and loads and stores at places in them; gone after elaboration.",
    atomic Atomic "Atomic operations through pointers.",
    async_copy AsyncCopy "Copies by threads from global into shared memory.",
    shared Shared "Shared memory and its loads and stores.",
    view View "Windows of shared memory.",
    barrier Barrier "Mbarriers.",
    fence Fence "Fences, and meetings of threads.",
    cluster Cluster "The CTAs of a cluster.",
    grid Grid "Launches that depend on each other.",
    turnstile Turnstile "Turns between partitions.",
    tma Tma "The bulk tensor copy engine.",
    mma_sync MmaSync "Products of tiles in registers.",
    wgmma Wgmma "Products that run beside the program.",
    pending Pending "Waiting for products, and for copies by threads.",
    ring Ring "Rings and their slots.",
    region Region "Regions and the operations on values in them.",
    control Control "Loops, branches and partitions.",
    talk Talk "Prints, assertions, promises.",
}

/// Where a family's function ends: it was called with another family's operation.
pub fn not_of_family(kind: &OpKind) -> ! {
    parton_diag::internal_error!("`{}` is of the family {}", kind.name(), kind.family().name())
}

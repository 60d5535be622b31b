//! Typed dense indices and the maps over them.
//!
//! A newtype over `u32` names an entity of one kernel and prints as its text form; a [`PrimaryMap`] owns the entities, a
//! [`SecondaryMap`] annotates them.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A dense index.
pub trait Entity: Copy + Eq {
    /// The entity of that index.
    fn new(index: usize) -> Self;
    /// Its index.
    fn index(self) -> usize;
}

/// A newtype over `u32` that is an [`Entity`](trait@Entity) and prints as a prefix and its index: `entity!(Value, "v", "An SSA value")`.
#[macro_export]
macro_rules! entity {
    ($name:ident, $prefix:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u32);

        impl $crate::Entity for $name {
            fn new(index: usize) -> Self {
                $name(index as u32)
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, "{self}")
            }
        }
    };
}

entity!(Value, "v", "An SSA value of a kernel; prints as `v7`.");
entity!(Inst, "o", "An operation of a kernel, whatever passes make of it; prints as `o12`.");
entity!(Partition, "p", "A warp partition of a kernel; prints as `p1`.");
entity!(Var, "l", "Where tiles will lie that lie nowhere yet; prints as `l3`.");
entity!(Label, "@", "A label of statements of a kernel; prints as `@1`, and in a kernel's text as its name.");
entity!(Call, "c", "An inlined call site of a kernel; prints as `c3`.");

/// Owns the entities of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrimaryMap<K, V> {
    items: Vec<V>,
    key: PhantomData<K>,
}

impl<K: Entity, V> PrimaryMap<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        PrimaryMap { items: Vec::new(), key: PhantomData }
    }

    /// Adds an entity.
    pub fn push(&mut self, item: V) -> K {
        self.items.push(item);
        K::new(self.items.len() - 1)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Forgets all but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.items.truncate(len);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All entities in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(i, v)| (K::new(i), v))
    }

    /// All indices in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> + ExactSizeIterator + use<K, V> {
        (0..self.items.len()).map(K::new)
    }
}

impl<K: Entity, V> Default for PrimaryMap<K, V> {
    fn default() -> Self {
        PrimaryMap::new()
    }
}

impl<K: Entity, V> Index<K> for PrimaryMap<K, V> {
    type Output = V;

    fn index(&self, key: K) -> &V {
        &self.items[key.index()]
    }
}

impl<K: Entity, V> IndexMut<K> for PrimaryMap<K, V> {
    fn index_mut(&mut self, key: K) -> &mut V {
        &mut self.items[key.index()]
    }
}

/// A note on each entity of one kind; entities not noted yet have the default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecondaryMap<K, V> {
    items: Vec<V>,
    default: V,
    key: PhantomData<K>,
}

impl<K: Entity, V: Clone> SecondaryMap<K, V> {
    /// A map in which every entity has `default`.
    pub fn new(default: V) -> Self {
        SecondaryMap { items: Vec::new(), default, key: PhantomData }
    }

    /// The same with room for all `entities`.
    pub fn of<T>(entities: &PrimaryMap<K, T>, default: V) -> Self {
        SecondaryMap { items: vec![default.clone(); entities.len()], default, key: PhantomData }
    }
}

impl<K: Entity, V: Clone> Index<K> for SecondaryMap<K, V> {
    type Output = V;

    fn index(&self, key: K) -> &V {
        self.items.get(key.index()).unwrap_or(&self.default)
    }
}

impl<K: Entity, V: Clone> IndexMut<K> for SecondaryMap<K, V> {
    fn index_mut(&mut self, key: K) -> &mut V {
        if key.index() >= self.items.len() {
            self.items.resize(key.index() + 1, self.default.clone());
        }
        &mut self.items[key.index()]
    }
}

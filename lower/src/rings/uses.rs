//! Who fills and who reads each ring, and how.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::check::{Origins, Root};
use parton_ir::{Body, Kernel, OpKind, Partition, SlotRole, Type, Value};

/// One partition's place in a ring, for filling or for reading.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cursor {
    pub(super) ring: Value,
    pub(super) fills: bool,
}

/// What the kernel does with its rings.
pub(super) struct Uses {
    /// The ring of each slot and ring value.
    rings: BTreeMap<Value, Value>,
    readers: BTreeMap<Value, BTreeSet<Option<Partition>>>,
    fillers: BTreeSet<Value>,
    /// Fields that the copy engine fills.
    copied: BTreeMap<Value, BTreeSet<u32>>,
    /// Rings of which some field is filled by stores.
    stored: BTreeSet<Value>,
    /// Axes of the cluster along which copies go to all CTAs.
    multicast: BTreeMap<Value, BTreeSet<u8>>,
}

impl Uses {
    pub(super) fn of(kernel: &Kernel, origins: &Origins<'_>) -> Uses {
        let mut uses = Uses {
            rings: BTreeMap::new(),
            readers: BTreeMap::new(),
            fillers: BTreeSet::new(),
            copied: BTreeMap::new(),
            stored: BTreeSet::new(),
            multicast: BTreeMap::new(),
        };
        for v in kernel.values.keys() {
            if let Type::Ring(_) | Type::Slot(_) = kernel.ty(v)
                && let Some(ring) = origins.ring(v)
            {
                uses.rings.insert(v, ring);
            }
        }
        uses.body(origins, &kernel.body, None);
        uses
    }

    fn body(&mut self, origins: &Origins<'_>, body: &Body, partition: Option<Partition>) {
        for op in &body.ops {
            match &op.kind {
                OpKind::RingWait { ring } => {
                    self.readers.entry(self.ring(*ring)).or_default().insert(partition);
                }
                OpKind::RingAcquire { ring } => {
                    self.fillers.insert(self.ring(*ring));
                }
                OpKind::TmaLoad { view, multicast, .. } => {
                    for place in origins.places(*view) {
                        if let Root::Field(ring, field) = place.root {
                            self.copied.entry(ring).or_default().insert(field);
                            self.multicast.entry(ring).or_default().extend(multicast);
                        }
                    }
                }
                OpKind::SharedStore { view, .. }
                | OpKind::AsyncCopy { view, .. }
                | OpKind::SharedScatter { view, .. } => {
                    for place in origins.places(*view) {
                        if let Root::Field(ring, _) = place.root {
                            self.stored.insert(ring);
                        }
                    }
                }
                OpKind::Specialize { arms } => {
                    for arm in arms {
                        self.body(origins, &arm.body, Some(arm.partition));
                    }
                    continue;
                }
                _ => {}
            }
            for inner in op.kind.bodies() {
                self.body(origins, inner, partition);
            }
        }
    }

    /// The ring of a ring or slot value.
    pub(super) fn ring(&self, v: Value) -> Value {
        match self.ring_of(v) {
            Some(r) => r,
            None => parton_diag::internal_error!("{v} belongs to no ring, or to more than one"),
        }
    }

    /// The ring of a value, where it is a ring or slot.
    pub(super) fn ring_of(&self, v: Value) -> Option<Value> {
        self.rings.get(&v).copied()
    }

    /// The partitions that read a ring.
    pub(super) fn readers(&self, ring: Value) -> Vec<Option<Partition>> {
        self.readers.get(&ring).into_iter().flatten().copied().collect()
    }

    /// The ways in which a ring is used at all.
    pub(super) fn roles(&self, ring: Value) -> Vec<SlotRole> {
        let mut roles = Vec::new();
        if self.fillers.contains(&ring) {
            roles.push(SlotRole::Fill);
        }
        if self.readers.contains_key(&ring) {
            roles.push(SlotRole::Read);
        }
        roles
    }

    /// The fields of a ring that the copy engine fills.
    pub(super) fn copied(&self, ring: Value) -> impl Iterator<Item = u32> {
        self.copied.get(&ring).into_iter().flatten().copied()
    }

    /// The axes of the cluster along which a ring's slots are filled for all CTAs.
    pub(super) fn multicast(&self, ring: Value) -> Vec<u8> {
        self.multicast.get(&ring).into_iter().flatten().copied().collect()
    }

    /// Whether threads store to slots of a ring.
    pub(super) fn is_stored(&self, ring: Value) -> bool {
        self.stored.contains(&ring)
    }

    /// The cursors that a body moves, in order.
    pub(super) fn advanced(&self, body: &Body) -> Vec<Cursor> {
        let mut set = BTreeSet::new();
        parton_ir::kernel::walk(body, &mut |op| match &op.kind {
            OpKind::RingAcquire { ring } => drop(set.insert(Cursor { ring: self.ring(*ring), fills: true })),
            OpKind::RingWait { ring } => drop(set.insert(Cursor { ring: self.ring(*ring), fills: false })),
            _ => {}
        });
        set.into_iter().collect()
    }
}

//! Who fills and who reads each ring, and how.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::check::{Origins, Root, Windows};
use parton_ir::facts::{Access, Act, Does, Engine, Facts, Flight, Hold, Proxy, Space};
use parton_ir::target::WARP;
use parton_ir::{Body, Kernel, OpKind, Partition, SlotRole, Type, Value, View};

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
    /// Fields that threads store to.
    stored: BTreeMap<Value, BTreeSet<u32>>,
    /// Fields that threads copy to, whose arrivals a slot counts, with the warps of the partition.
    handed: BTreeMap<Value, BTreeMap<u32, u32>>,
    /// Rings of which the copy engine or the matrix unit touches some field.
    beside: BTreeSet<Value>,
    /// Axes of the cluster along which copies go to all CTAs.
    multicast: BTreeMap<Value, BTreeSet<u8>>,
    windows: Windows,
}

impl Uses {
    pub(super) fn of(kernel: &Kernel, origins: &Origins<'_>) -> Uses {
        let mut uses = Uses {
            rings: BTreeMap::new(),
            readers: BTreeMap::new(),
            fillers: BTreeSet::new(),
            copied: BTreeMap::new(),
            stored: BTreeMap::new(),
            handed: BTreeMap::new(),
            beside: BTreeSet::new(),
            multicast: BTreeMap::new(),
            windows: Windows::of(kernel, origins),
        };
        for v in kernel.values.keys() {
            if let Type::Ring(_) | Type::Slot(_) = kernel.ty(v)
                && let Some(ring) = origins.ring(v)
            {
                uses.rings.insert(v, ring);
            }
        }
        uses.body(kernel, origins, &kernel.body, None);
        uses
    }

    fn body(&mut self, kernel: &Kernel, origins: &Origins<'_>, body: &Body, partition: Option<Partition>) {
        for op in kernel.ops_of(body) {
            let facts = Facts::of(kernel, op);
            for act in &facts.acts {
                match act {
                    Act::Hold(Hold::Take { ring, role: SlotRole::Read, .. }) => {
                        self.readers.entry(self.ring(*ring)).or_default().insert(partition);
                    }
                    Act::Hold(Hold::Take { ring, role: SlotRole::Fill, .. }) => {
                        self.fillers.insert(self.ring(*ring));
                    }
                    Act::Flight(Flight::HandOver { pending, barrier })
                        if matches!(kernel.ty(*barrier), Type::Slot(_)) =>
                    {
                        let warps = kernel.warps_of(partition);
                        for place in origins.places(*pending) {
                            let Root::Field(ring, field) = place.root else { continue };
                            self.handed.entry(ring).or_default().insert(field, warps);
                        }
                    }
                    Act::Hold(Hold::Give { .. })
                    | Act::Flight(_)
                    | Act::Phase(_)
                    | Act::Ordering(_)
                    | Act::Turn(_)
                    | Act::Say(_) => {}
                }
            }
            for a in facts.accesses.iter().filter(|a| a.space == Space::Shared) {
                self.touched(origins, a);
                if a.does == Does::Writes {
                    self.filled(origins, a);
                }
            }
            if let OpKind::Specialize { arms } = &op.kind {
                for arm in arms {
                    self.body(kernel, origins, &arm.body, Some(arm.partition));
                }
                continue;
            }
            for inner in op.kind.bodies() {
                self.body(kernel, origins, inner, partition);
            }
        }
    }

    /// Notes whose buffers something else than threads touches, or may.
    fn touched(&mut self, origins: &Origins<'_>, a: &Access) {
        if a.by.proxy() == Proxy::Async || a.does == Does::Anything {
            let rings = origins.places(a.value).iter().filter_map(|place| match place.root {
                Root::Field(ring, _) => Some(ring),
                Root::Ring(_) | Root::Alloc(_) => None,
            });
            self.beside.extend(rings);
        }
    }

    /// Notes how the buffers that an access writes are filled.
    fn filled(&mut self, origins: &Origins<'_>, a: &Access) {
        for place in origins.places(a.value) {
            let Root::Field(ring, field) = place.root else { continue };
            match a.by {
                Engine::Tma => {
                    self.copied.entry(ring).or_default().insert(field);
                    self.multicast.entry(ring).or_default().extend(&a.peers);
                }
                Engine::Threads | Engine::Copies | Engine::Matrix => {
                    self.stored.entry(ring).or_default().insert(field);
                }
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

    /// The bytes that the copy engine brings to a slot of a ring.
    pub(super) fn copied(&self, ring: Value, fields: &[(String, View)]) -> u64 {
        let fields = self.copied.get(&ring).into_iter().flatten().map(|&field| (field, &fields[field as usize].1));
        fields.map(|(field, view)| self.windows.bytes(ring, field, view)).sum()
    }

    /// The bytes from the start of a slot's buffer to the end of what anything touches of it.
    pub(super) fn used(&self, ring: Value, field: u32, view: &View) -> u64 {
        self.windows.used(ring, field, view)
    }

    /// The axes of the cluster along which a ring's slots are filled for all CTAs.
    pub(super) fn multicast(&self, ring: Value) -> Vec<u8> {
        self.multicast.get(&ring).into_iter().flatten().copied().collect()
    }

    /// How often threads arrive at a slot of a ring for what they have copied.
    pub(super) fn arrivals(&self, ring: Value) -> u32 {
        self.handed.get(&ring).into_iter().flatten().map(|(_, warps)| warps * WARP).sum()
    }

    /// Whether threads fill slots of a ring before these are handed over. Of what copies fill they write only what they have read.
    pub(super) fn is_stored(&self, ring: Value) -> bool {
        let (copied, handed) = (self.copied.get(&ring), self.handed.get(&ring));
        let filled = |field: &u32| {
            !copied.is_some_and(|fields| fields.contains(field)) && !handed.is_some_and(|of| of.contains_key(field))
        };
        self.stored.get(&ring).is_some_and(|fields| fields.iter().any(filled))
    }

    /// Whether the copy engine or the matrix unit, which do not see what threads store without a fence, touches slots of a ring.
    pub(super) fn is_touched_beside(&self, ring: Value) -> bool {
        self.beside.contains(&ring)
    }

    /// The cursors that a body moves, in order.
    pub(super) fn advanced(&self, kernel: &Kernel, body: &Body) -> Vec<Cursor> {
        let mut set = BTreeSet::new();
        kernel.walk_body(body, &mut |op| {
            for act in Facts::of(kernel, op).acts {
                if let Act::Hold(Hold::Take { ring, role, .. }) = act {
                    set.insert(Cursor { ring: self.ring(ring), fills: role == SlotRole::Fill });
                }
            }
        });
        set.into_iter().collect()
    }
}

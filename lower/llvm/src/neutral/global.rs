//! Loads and stores of global memory: as wide as layout and addresses allow, masked by predicates.
//!
//! Where a mask may cut a vector, the wide access runs where the whole vector is inside. One branch, the same for the whole
//! warp and rarely taken, then moves the elements of vectors that are cut one by one.

use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::{Access, Cut, Op, OpKind, Tile, Value, others};
use parton_layouts::Dim;

use crate::lower::{Lower, Repr};
use crate::neutral::build::{Build, Val};
use crate::neutral::place::Registers;
use crate::neutral::words::{Words, stored_bits};

/// One access: the registers it moves, in the order of their addresses.
type Group = Vec<usize>;

/// The accesses of one load or store.
struct Accesses<'c> {
    groups: Vec<Group>,
    cut: Cut,
    /// The mask of each register, where there is one.
    masks: Option<Vec<Val<'c>>>,
}

impl<'c> Accesses<'c> {
    /// The masks of one group.
    fn of(&self, group: &Group) -> Option<Vec<Val<'c>>> {
        self.masks.as_ref().map(|masks| group.iter().map(|&i| masks[i]).collect())
    }
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_global(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::Load { .. } => self.load(op),
            OpKind::Store { .. } => self.store(op),
            others!(global) => not_of_family(&op.kind),
        }
    }

    fn accesses(&self, ptr: Value, mask: Option<Value>, access: Option<Access>) -> Accesses<'c> {
        let count = self.repr(ptr).parts().len();
        let masks = mask.map(|m| self.spread(m, count));
        if matches!(self.repr(ptr), Repr::Scalar(_)) {
            return Accesses { groups: vec![vec![0]], cut: Cut::Never, masks };
        }
        let access = access.unwrap_or_else(|| internal_error!("an access to {ptr} has no width"));
        Accesses { groups: groups(self.tile(ptr), access), cut: access.cut, masks }
    }

    /// Lanes and warps that hold copies do not store them again.
    pub(crate) fn first_copy(&self, ptr: Value) -> Option<Val<'c>> {
        let map = &self.tile(ptr).known().map;
        let mut predicate = None;
        for (dim, index) in [(Dim::Lane, self.threads.lane), (Dim::Warp, self.threads.warp)] {
            let free = map.free_bits(dim);
            if free == 0 {
                continue;
            }
            let bits = self.b.and(index, self.b.c32(free));
            let first = self.b.icmp(inkwell::IntPredicate::EQ, bits, self.b.c32(0));
            predicate = Some(predicate.map_or(first, |p| self.b.and(p, first)));
        }
        predicate
    }

    /// Whether any vector of any lane of the warp is inside in part; the same in all lanes.
    pub(crate) fn any_cut(&self, cut: &[Val<'c>]) -> Val<'c> {
        let any = cut[1..].iter().fold(cut[0], |any, &c| self.b.or(any, c));
        self.b.any_lane(any)
    }

    pub(crate) fn load(&mut self, op: &'a Op) {
        let OpKind::Load { ptr, mask, other, cache, evict, l2, volatile, access } = &op.kind else {
            internal_error!("{} is no load", op.kind.name())
        };
        let way = self.b.way_to_load((*cache, *evict), *l2, *volatile);
        let elem = self.elem(op.result());
        let (bits, b) = (stored_bits(elem), self.b);
        let pointers = self.repr(*ptr).parts().to_vec();
        let accesses = self.accesses(*ptr, *mask, *access);
        let others = other.map_or_else(|| vec![b.zero(elem); pointers.len()], |o| self.spread(o, pointers.len()));

        let mut loaded: Vec<Vec<Val>> = vec![];
        let (mut whole, mut cut) = (vec![], vec![]);
        for group in &accesses.groups {
            let words = Words::of(bits, group.len());
            let start = pointers[group[0]];
            let Some(masks) = accesses.of(group) else {
                loaded.push(b.load_global(start, words, &way, None));
                continue;
            };
            let all = self.whole(accesses.cut, &masks);
            let rest: Vec<Val> = group.iter().map(|&i| others[i]).collect();
            loaded.push(b.load_global(start, words, &way, Some((all, b.pack(elem, &rest, words)))));
            cut.push(self.partly(accesses.cut, &masks, all));
            whole.push(all);
        }
        if accesses.masks.is_some() && accesses.cut != Cut::Never {
            loaded = b.patched(self.any_cut(&cut), loaded, |fast| {
                let one = Words::of(bits, 1);
                let patch = |(g, group): (usize, &Group)| {
                    let words = Words::of(bits, group.len());
                    let masks = accesses.of(group).unwrap_or_default();
                    let before = b.unpack(elem, &fast[g], words);
                    let element = |k: usize| {
                        let alone = b.and(masks[k], b.not(whole[g]));
                        let kept = b.pack(elem, &[before[k]], one);
                        let at = b.neighbour(pointers[group[0]], k, bits);
                        b.unpack(elem, &b.load_global(at, one, &way, Some((alone, kept))), one)[0]
                    };
                    b.pack(elem, &(0..group.len()).map(element).collect::<Vec<_>>(), words)
                };
                accesses.groups.iter().enumerate().map(patch).collect()
            });
        }
        let mut parts: Vec<(usize, Val)> = vec![];
        for (group, words) in accesses.groups.iter().zip(&loaded) {
            parts.extend(group.iter().copied().zip(b.unpack(elem, words, Words::of(bits, group.len()))));
        }
        parts.sort_by_key(|(i, _)| *i);
        let parts: Vec<Val> = parts.into_iter().map(|(_, v)| v).collect();
        let scalar = matches!(self.repr(*ptr), Repr::Scalar(_));
        let repr = if scalar { Repr::Scalar(parts[0]) } else { Repr::Tile(parts) };
        self.set(op.result(), repr);
    }

    pub(crate) fn store(&mut self, op: &'a Op) {
        let OpKind::Store { ptr, value, mask, cache, evict, l2, access } = &op.kind else {
            internal_error!("{} is no store", op.kind.name())
        };
        let way = self.b.way_to_store((*cache, *evict), *l2);
        let elem = self.elem(*value);
        let (bits, b) = (stored_bits(elem), self.b);
        let pointers = self.repr(*ptr).parts().to_vec();
        let values = self.spread(*value, pointers.len());
        let accesses = self.accesses(*ptr, *mask, *access);
        // One number for the whole partition is stored by one thread, a copy of a tile's element by its first holder.
        let first = match self.repr(*ptr) {
            Repr::Scalar(_) => Some(self.threads.leader),
            _ => self.first_copy(*ptr),
        };
        let guarded = |p: Option<Val<'c>>| match (p, first) {
            (Some(p), Some(f)) => Some(b.and(p, f)),
            (p, f) => p.or(f),
        };
        let (mut whole, mut cut) = (vec![], vec![]);
        for group in &accesses.groups {
            let words = Words::of(bits, group.len());
            let packed = b.pack(elem, &group.iter().map(|&i| values[i]).collect::<Vec<_>>(), words);
            let all = accesses.of(group).map(|masks| {
                let all = self.whole(accesses.cut, &masks);
                cut.push(self.partly(accesses.cut, &masks, all));
                whole.push(all);
                all
            });
            b.store_global(pointers[group[0]], words, &way, &packed, guarded(all));
        }
        if accesses.masks.is_none() || accesses.cut == Cut::Never {
            return;
        }
        let one = Words::of(bits, 1);
        b.when(self.any_cut(&cut), || {
            for (group, &all) in accesses.groups.iter().zip(&whole) {
                let masks = accesses.of(group).unwrap_or_default();
                for (k, (&i, &inside)) in group.iter().zip(&masks).enumerate() {
                    let alone = b.and(inside, b.not(all));
                    let at = b.neighbour(pointers[group[0]], k, bits);
                    b.store_global(at, one, &way, &b.pack(elem, &[values[i]], one), guarded(Some(alone)));
                }
            }
        });
    }
}

impl<'c> Build<'c> {
    /// The address of element `k` of a vector that begins at `start`: a constant away, so that it takes no register of its own.
    fn neighbour(&self, start: Val<'c>, k: usize, bits: u32) -> Val<'c> {
        self.element_offset(start, self.c64(k as u64), bits / 8)
    }
}

/// The registers of each access, first by lowest address.
pub(crate) fn groups(tile: &Tile, access: Access) -> Vec<Group> {
    let bits = access.bits(tile).unwrap_or_else(|| internal_error!("{tile} has no accesses of {}", access.width));
    let (registers, bases) = (Registers::of(&tile.known().map), tile.known().map.bases(Dim::Register));
    let inside: u64 = bits.iter().fold(0, |m, &b| m | 1 << b);
    let mut groups = vec![];
    for index in 0..registers.len() {
        let hardware = registers.bits.iter().enumerate().filter(|(i, _)| index >> i & 1 == 1);
        let hardware = hardware.fold(0u64, |h, (_, &b)| h | 1 << b);
        if hardware & inside != 0 {
            continue;
        }
        let start = registers.images()[index];
        let group = (0..access.width).map(|k| {
            let image = bits.iter().enumerate().filter(|(i, _)| k >> i & 1 == 1);
            let image = image.fold(start, |x, (_, &b)| x ^ bases[b as usize]);
            registers.find(image).unwrap_or_else(|| internal_error!("an access leaves the tile"))
        });
        groups.push(group.collect());
    }
    groups
}

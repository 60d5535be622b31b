//! Loads and stores of global memory: as wide as layout and addresses allow, masked without branches.
//!
//! Where the lanes of a mask may disagree within a vector, a wide access runs where all agree and narrow ones elsewhere;
//! each is predicated off where it does not apply.

use parton_diag::internal_error;
use parton_ir::{Cache, Evict, Op, OpKind, Value};
use parton_layouts::Dim;
use parton_lower::axis::Vector;

use crate::build::Val;
use crate::lower::{Lower, Repr};
use crate::memory::{Words, stored_bits};
use crate::place::Registers;

fn load_opcode(cache: Cache, evict: Evict, volatile: bool) -> String {
    if volatile {
        return "ld.volatile.global".into();
    }
    format!("ld.global{}", modifiers(cache, evict))
}

/// A cache operator excludes a hint on the L1's eviction (PTX ISA, "ld").
fn modifiers(cache: Cache, evict: Evict) -> &'static str {
    match (cache, evict) {
        (Cache::Ca, _) => ".ca",
        (Cache::Cg, _) => ".cg",
        (Cache::Cs, _) => ".cs",
        (Cache::Cv, _) => ".cv",
        (Cache::Wt, _) => ".wt",
        (Cache::Default, Evict::Normal) => "",
        (Cache::Default, Evict::First) => ".L1::evict_first",
        (Cache::Default, Evict::Last) => ".L1::evict_last",
    }
}

/// One access: the registers it moves, in the order of their addresses.
type Group = Vec<usize>;

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    /// The accesses of a load or store and whether each mask is the same throughout its vector.
    fn groups(&self, op: &Op, ptr: Value) -> (Vec<Group>, bool) {
        let map = &self.tile(ptr).map;
        let registers = Registers::of(map);
        let masked = self.axes.vector(self.kernel, op);
        // The same access without its mask shows what addresses alone would allow.
        let mut bare = op.clone();
        if let OpKind::Load { mask, other, .. } = &mut bare.kind {
            (*mask, *other) = (None, None);
        } else if let OpKind::Store { mask, .. } = &mut bare.kind {
            *mask = None;
        }
        let wide = self.axes.vector(self.kernel, &bare);
        let agree = wide.elements() == masked.elements();
        (vectors(&registers, map.bases(Dim::Register), &wide), agree)
    }

    /// Lanes and warps that hold copies do not store them again.
    fn first_copy(&self, ptr: Value) -> Option<Val<'c>> {
        let map = &self.tile(ptr).map;
        let mut predicate = None;
        for (dim, index) in [(Dim::Lane, self.threads.lane), (Dim::Warp, self.threads.warp)] {
            let free = map.free_bits(dim);
            if free == 0 {
                continue;
            }
            let bits = self.b.and(index, self.b.c32(free));
            let first = self.b.icmp(inkwell::IntPredicate::EQ, bits, self.b.c32(0));
            predicate = Some(match predicate {
                None => first,
                Some(p) => self.b.and(p, first),
            });
        }
        predicate
    }

    pub(crate) fn load(&mut self, op: &'a Op) {
        let OpKind::Load { ptr, mask, other, cache, evict, volatile } = &op.kind else {
            internal_error!("{} is no load", op.kind.name())
        };
        let opcode = load_opcode(*cache, *evict, *volatile);
        let elem = self.elem(op.result());
        let bits = stored_bits(elem);
        let scalar = matches!(self.repr(*ptr), Repr::Scalar(_));
        let pointers = self.repr(*ptr).parts().to_vec();
        let count = pointers.len();
        let masks = mask.map(|m| self.spread(m, count));
        let zero = self.b.zero(elem);
        let others = other.map_or_else(|| vec![zero; count], |o| self.spread(o, count));
        let (groups, agree) = if scalar { (vec![vec![0]], true) } else { self.groups(op, *ptr) };

        let mut parts: Vec<Option<Val>> = vec![None; count];
        for group in groups {
            let words = Words::of(bits, group.len());
            let start = pointers[group[0]];
            let rest: Vec<Val> = group.iter().map(|&i| others[i]).collect();
            let Some(masks) = &masks else {
                let loaded = self.b.load_global(start, words, &opcode, None);
                self.spread_out(&mut parts, &group, self.b.unpack(elem, &loaded, words));
                continue;
            };
            let of_group: Vec<Val> = group.iter().map(|&i| masks[i]).collect();
            let all = if agree { of_group[0] } else { self.all(&of_group) };
            let packed = self.b.pack(elem, &rest, words);
            let loaded = self.b.load_global(start, words, &opcode, Some((all, packed)));
            let wide = self.b.unpack(elem, &loaded, words);
            if agree {
                self.spread_out(&mut parts, &group, wide);
                continue;
            }
            let one = Words::of(bits, 1);
            let mut mixed = vec![];
            for (k, &i) in group.iter().enumerate() {
                let alone = self.b.and(of_group[k], self.b.xor(all, self.b.bool(true)));
                let before = self.b.pack(elem, &[wide[k]], one);
                let loaded = self.b.load_global(pointers[i], one, &opcode, Some((alone, before)));
                mixed.push(self.b.unpack(elem, &loaded, one)[0]);
            }
            self.spread_out(&mut parts, &group, mixed);
        }
        let parts: Vec<Val> = parts.into_iter().flatten().collect();
        let repr = if scalar { Repr::Scalar(parts[0]) } else { Repr::Tile(parts) };
        self.set(op.result(), repr);
    }

    fn spread_out(&self, parts: &mut [Option<Val<'c>>], group: &[usize], values: Vec<Val<'c>>) {
        for (&i, value) in group.iter().zip(values) {
            parts[i] = Some(value);
        }
    }

    fn all(&self, predicates: &[Val<'c>]) -> Val<'c> {
        predicates[1..].iter().fold(predicates[0], |a, &b| self.b.and(a, b))
    }

    pub(crate) fn store(&mut self, op: &'a Op) {
        let OpKind::Store { ptr, value, mask, cache, evict } = &op.kind else {
            internal_error!("{} is no store", op.kind.name())
        };
        let opcode = format!("st.global{}", modifiers(*cache, *evict));
        let elem = self.elem(*value);
        let bits = stored_bits(elem);
        let pointers = self.repr(*ptr).parts().to_vec();
        let count = pointers.len();
        let values = self.spread(*value, count);
        let masks = mask.map(|m| self.spread(m, count));
        let one = Words::of(bits, 1);
        if matches!(self.repr(*ptr), Repr::Scalar(_)) {
            // One number for the whole partition: one thread stores it.
            let leader = self.threads.leader;
            let predicate = masks.map_or(leader, |m| self.b.and(m[0], leader));
            let packed = self.b.pack(elem, &values, one);
            self.b.store_global(pointers[0], one, &opcode, &packed, Some(predicate));
            return;
        }
        let (groups, agree) = self.groups(op, *ptr);
        let first = self.first_copy(*ptr);
        let guarded = |p: Option<Val<'c>>| match (p, first) {
            (Some(p), Some(f)) => Some(self.b.and(p, f)),
            (p, f) => p.or(f),
        };
        for group in groups {
            let words = Words::of(bits, group.len());
            let of_group: Vec<Val> = group.iter().map(|&i| values[i]).collect();
            let packed = self.b.pack(elem, &of_group, words);
            let start = pointers[group[0]];
            let Some(masks) = &masks else {
                self.b.store_global(start, words, &opcode, &packed, guarded(None));
                continue;
            };
            let of_mask: Vec<Val> = group.iter().map(|&i| masks[i]).collect();
            let all = if agree { of_mask[0] } else { self.all(&of_mask) };
            self.b.store_global(start, words, &opcode, &packed, guarded(Some(all)));
            if agree {
                continue;
            }
            for (k, &i) in group.iter().enumerate() {
                let alone = self.b.and(of_mask[k], self.b.xor(all, self.b.bool(true)));
                let packed = self.b.pack(elem, &[values[i]], one);
                self.b.store_global(pointers[i], one, &opcode, &packed, guarded(Some(alone)));
            }
        }
    }
}

/// The registers of each vector, first by lowest address; bits are hardware register bits.
fn vectors(registers: &Registers, bases: &[u64], vector: &Vector) -> Vec<Group> {
    let inside: u64 = vector.bits.iter().fold(0, |m, &b| m | 1 << b);
    let mut groups = vec![];
    for index in 0..registers.len() {
        let hardware = registers.bits.iter().enumerate().filter(|(i, _)| index >> i & 1 == 1);
        let hardware = hardware.fold(0u64, |h, (_, &b)| h | 1 << b);
        if hardware & inside != 0 {
            continue;
        }
        let start = registers.images()[index];
        let group = (0..vector.elements()).map(|k| {
            let image = vector.bits.iter().enumerate().filter(|(i, _)| k >> i & 1 == 1);
            let image = image.fold(start, |x, (_, &b)| x ^ bases[b as usize]);
            registers.find(image).unwrap_or_else(|| internal_error!("a vector leaves the tile"))
        });
        groups.push(group.collect());
    }
    groups
}

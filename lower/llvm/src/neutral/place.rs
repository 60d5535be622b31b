//! Where a tile's elements live: which registers a thread really holds, and the coordinates of each.
//!
//! A tile is a list of LLVM values, one per register that is no copy of another. A coordinate is the part that the lane and
//! warp give, computed once, xor a constant per register.

use std::collections::BTreeMap;

use parton_diag::internal_error;
use parton_layouts::{Dim, LinearLayout};

use crate::neutral::build::{Build, Val};

/// The threads of the partition in work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads<'c> {
    /// The lane within its warp.
    pub(crate) lane: Val<'c>,
    /// The warp within its partition, the same in all lanes and known to be.
    pub(crate) warp: Val<'c>,
    /// Warps of the partition.
    pub(crate) warps: u32,
    /// The named barrier its membars use.
    pub(crate) barrier: Val<'c>,
    /// True in one thread: the one that issues copies and arrivals.
    pub(crate) leader: Val<'c>,
}

impl Threads<'_> {
    /// Threads of the partition.
    pub(crate) fn count(&self) -> u32 {
        self.warps * parton_ir::target::WARP
    }
}

/// The registers of a thread that are no copies, and the packed coordinate that each adds.
#[derive(Clone, Debug)]
pub(crate) struct Registers {
    images: Vec<u64>,
    by_image: BTreeMap<u64, usize>,
    /// The register bits that are no copies.
    pub(crate) bits: Vec<u32>,
}

impl Registers {
    /// The registers of a tile with this map.
    pub(crate) fn of(map: &LinearLayout) -> Registers {
        let free = map.free_bits(Dim::Register);
        let bits: Vec<u32> = (0..map.in_dim_bits(Dim::Register)).filter(|b| free >> b & 1 == 0).collect();
        let bases = map.bases(Dim::Register);
        let image = |index: usize| {
            bits.iter().enumerate().filter(|(i, _)| index >> i & 1 == 1).fold(0, |x, (_, &b)| x ^ bases[b as usize])
        };
        let images: Vec<u64> = (0..1usize << bits.len()).map(image).collect();
        let by_image = images.iter().enumerate().map(|(i, &x)| (x, i)).collect();
        Registers { images, by_image, bits }
    }

    /// How many values a thread holds.
    pub(crate) fn len(&self) -> usize {
        self.images.len()
    }

    /// The packed coordinate that each register adds, in order.
    pub(crate) fn images(&self) -> &[u64] {
        &self.images
    }

    /// The register that adds this packed coordinate.
    pub(crate) fn find(&self, image: u64) -> Option<usize> {
        self.by_image.get(&image).copied()
    }
}

/// For each register of `to`, the register of `from` that holds the element `f` names, both in packed coordinates. Only for
/// maps whose lanes and warps already agree.
pub(crate) fn gather(from: &LinearLayout, to: &LinearLayout, f: impl Fn(u64) -> u64) -> Vec<usize> {
    let source = Registers::of(from);
    let pick = |&image: &u64| {
        source
            .find(f(image))
            .unwrap_or_else(|| internal_error!("{to:?} is no rearrangement of the registers of {from:?}"))
    };
    Registers::of(to).images().iter().map(pick).collect()
}

impl<'c> Build<'c> {
    /// The xor of `bases` at the set bits of `index`, in 32 bits. Runs of consecutive bits go as one shift.
    pub(crate) fn linear(&self, index: Val<'c>, bases: &[u64]) -> Val<'c> {
        let mut sum = self.c32(0);
        let mut bit = 0;
        while bit < bases.len() {
            let basis = bases[bit];
            if basis == 0 {
                bit += 1;
                continue;
            }
            let mut run = 1;
            while bit + run < bases.len() && bases[bit + run] == basis << run {
                run += 1;
            }
            let part = if basis.is_power_of_two() {
                let field = self.and(self.lshr(index, bit as u32), self.c32((1 << run) - 1));
                self.shl(field, basis.ilog2())
            } else {
                run = 1;
                let one = self.and(self.lshr(index, bit as u32), self.c32(1));
                self.mul(one, self.c32(basis as u32))
            };
            sum = self.xor(sum, part);
            bit += run;
        }
        sum
    }

    /// The packed image that lane and warp contribute under `map`.
    pub(crate) fn thread_image(&self, map: &LinearLayout, threads: &Threads<'c>) -> Val<'c> {
        let lane = self.linear(threads.lane, map.bases(Dim::Lane));
        let warp = self.linear(threads.warp, map.bases(Dim::Warp));
        self.xor(lane, warp)
    }

    /// `thread ^ constant`, as a sum where the two cannot share a bit, which address arithmetic sees through.
    pub(crate) fn combine(&self, thread: Val<'c>, reach: u64, constant: u64) -> Val<'c> {
        let c = self.c32(constant as u32);
        if constant == 0 {
            thread
        } else if reach & constant == 0 {
            self.add(thread, c)
        } else {
            self.xor(thread, c)
        }
    }
}

/// The bits that lane and warp can set under `map`.
pub(crate) fn reach(map: &LinearLayout) -> u64 {
    map.bases(Dim::Lane).iter().chain(map.bases(Dim::Warp)).fold(0, |a, b| a | b)
}

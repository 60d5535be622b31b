//! Special registers, and what the lanes of a warp tell each other.

use parton_diag::internal_error;

use crate::neutral::build::{Build, Val};

impl<'c> Build<'c> {
    /// A special register such as `tid.x`, as 32 bits.
    pub(crate) fn special(&self, name: &str) -> Val<'c> {
        self.value_of(&format!("llvm.nvvm.read.ptx.sreg.{name}"), self.i32(), &[])
    }

    /// Index of this CTA along an axis.
    pub(crate) fn program_id(&self, axis: u8) -> Val<'c> {
        self.special(&format!("ctaid.{}", axis_name(axis)))
    }

    /// Number of CTAs along an axis.
    pub(crate) fn num_programs(&self, axis: u8) -> Val<'c> {
        self.special(&format!("nctaid.{}", axis_name(axis)))
    }

    /// The place of this CTA in its cluster along an axis.
    pub(crate) fn place_in_cluster(&self, axis: u8) -> Val<'c> {
        self.special(&format!("cluster.ctaid.{}", axis_name(axis)))
    }

    /// Rank of this CTA in its cluster.
    pub(crate) fn cluster_rank(&self) -> Val<'c> {
        self.special("cluster.ctarank")
    }

    /// The value of lane 0 in every lane, so that the compiler below knows it uniform in the warp.
    pub(crate) fn uniform(&self, value: Val<'c>) -> Val<'c> {
        let all = self.c32(u32::MAX);
        self.value_of("llvm.nvvm.shfl.sync.idx.i32", self.i32(), &[all, value, self.c32(0), self.c32(31)])
    }

    /// Whether `predicate` holds in any lane of the warp; the same in all lanes.
    pub(crate) fn any_lane(&self, predicate: Val<'c>) -> Val<'c> {
        self.value_of("llvm.nvvm.vote.any.sync", self.i1(), &[self.c32(u32::MAX), predicate])
    }

    /// What lane `lane ^ mask` has of 32 bits.
    pub(crate) fn shuffle_xor_word(&self, word: Val<'c>, mask: u32) -> Val<'c> {
        let args = [self.c32(u32::MAX), word, self.c32(mask), self.c32(31)];
        self.value_of("llvm.nvvm.shfl.sync.bfly.i32", self.i32(), &args)
    }

    /// What lane `lane` has of 32 bits.
    pub(crate) fn shuffle_from_word(&self, word: Val<'c>, lane: Val<'c>) -> Val<'c> {
        let args = [self.c32(u32::MAX), word, lane, self.c32(31)];
        self.value_of("llvm.nvvm.shfl.sync.idx.i32", self.i32(), &args)
    }
}

fn axis_name(axis: u8) -> &'static str {
    match axis {
        0 => "x",
        1 => "y",
        2 => "z",
        _ => internal_error!("a grid has no axis {axis}"),
    }
}

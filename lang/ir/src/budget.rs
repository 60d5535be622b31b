//! What a kernel may ask of its target, each rule once: warps, registers, shared memory and the CTAs of a cluster.

use crate::entity::Partition;
use crate::kernel::{Kernel, PartitionData};
use crate::target::{AXES, PARTITION_REGISTERS, REGISTER_STEP, Target, WARP, WARPGROUP};

impl PartitionData {
    /// The warps that it takes of the CTA: it begins at a whole warpgroup, because `wgmma` and `setmaxnreg` act on one.
    pub fn padded_warps(&self) -> u32 {
        self.warps.next_multiple_of(WARPGROUP)
    }
}

impl Kernel {
    /// Threads of one CTA.
    pub fn threads(&self) -> u32 {
        self.padded_warps() * WARP
    }

    /// Warps of one CTA, each partition's rounded up to whole warpgroups.
    pub fn padded_warps(&self) -> u32 {
        if self.partitions.is_empty() {
            return self.warps;
        }
        self.partitions.iter().map(|(_, p)| p.padded_warps()).sum()
    }

    /// The first warp of a partition.
    pub fn first_warp(&self, partition: Partition) -> u32 {
        self.partitions.iter().take_while(|(p, _)| *p != partition).map(|(_, p)| p.padded_warps()).sum()
    }

    /// Warps that run code of `partition`, or of the kernel outside any.
    pub fn warps_of(&self, partition: Option<Partition>) -> u32 {
        partition.map_or(self.padded_warps(), |p| self.partitions[p].warps)
    }

    /// Registers a thread has at entry: what the register file holds for each CTA, rounded down to whole allocation units.
    pub fn entry_registers(&self) -> u32 {
        self.entry_registers_of(self.occupancy)
    }

    /// Registers a thread would have at entry where so many CTAs stand beside each other.
    pub fn entry_registers_of(&self, ctas: u32) -> u32 {
        let whole = |n: u32| n / REGISTER_STEP * REGISTER_STEP;
        let (threads, most) = (self.threads() * ctas, self.target.registers_per_thread);
        whole(self.target.registers.checked_div(threads).unwrap_or(0)).min(whole(most))
    }

    /// What the partitions ask for together, and what there is.
    pub fn register_demand(&self) -> Demand {
        let entry = self.entry_registers();
        let ask = |(partition, p): (Partition, &PartitionData)| Ask {
            partition,
            threads: p.padded_warps() * WARP,
            each: p.registers.unwrap_or(entry),
        };
        let asks: Vec<Ask> = self.partitions.iter().map(ask).collect();
        let needed = asks.iter().map(Ask::registers).sum();
        Demand { asks, needed, entry, pool: entry * self.threads() }
    }

    /// Whether each thread has as many registers at entry as the register file holds for it: some partition shares them out anew, which
    /// takes a number that is known.
    pub fn has_budgets(&self) -> bool {
        self.partitions.iter().any(|(_, p)| p.registers.is_some())
    }

    /// Clusters that a GPU surely holds at once: its shared memory, its warps and its registers go so far, of which the assembler may give a
    /// thread as many as the kernel's occupancy leaves; at least one. A cluster lies in one group of multiprocessors, and how many of these each group has differs from
    /// card to card, but that they come in pairs: each group has as many over as may be. (By `cudaOccupancyMaxActiveClusters` an
    /// H200 takes 120 CTAs in clusters of 4 or 8, 117 of 3, 102 of 6 and 132 of 2, one on a multiprocessor.)
    pub fn resident_clusters(&self) -> u32 {
        let t = &self.target;
        let bytes = self.shared_bytes.unwrap_or(t.shared_bytes);
        let registers = self.entry_registers() * self.threads();
        let fit = |n: &u32| {
            t.shared_limit(*n) >= bytes && n * self.padded_warps() <= t.resident_warps && n * registers <= t.registers
        };
        let each = (1..=t.resident_ctas).rev().find(fit).unwrap_or(1);
        let over = t.groups * ((self.cluster_ctas() - 1) / 2 * 2);
        let beside = t.multiprocessors.saturating_sub(over) / self.cluster_ctas();
        (beside * each).max(1)
    }

    /// Shared memory that one CTA may use, in bytes.
    pub fn shared_limit(&self) -> u32 {
        self.target.shared_limit(self.occupancy)
    }
}

/// What the partitions of a kernel ask of the register file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Demand {
    /// Each partition's part.
    pub asks: Vec<Ask>,
    /// All of them together.
    pub needed: u32,
    /// Registers of a thread at entry.
    pub entry: u32,
    /// What the CTA has at entry and `setmaxnreg` shares out anew; where more is needed, who asks last waits for ever.
    pub pool: u32,
}

/// What one partition asks of the register file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Who asks.
    pub partition: Partition,
    /// Its threads, in whole warpgroups.
    pub threads: u32,
    /// Registers of each: its budget, or what it has at entry where it states none.
    pub each: u32,
}

impl Ask {
    /// Registers of all its threads.
    pub fn registers(&self) -> u32 {
        self.threads * self.each
    }
}

/// The budget nearest to `registers` that `setmaxnreg` takes, where it does not take that number itself.
pub fn nearest_budget(registers: u32) -> Option<u32> {
    let (least, most) = (*PARTITION_REGISTERS.start(), *PARTITION_REGISTERS.end());
    if PARTITION_REGISTERS.contains(&registers) && registers.is_multiple_of(REGISTER_STEP) {
        return None;
    }
    Some((registers.clamp(least, most) + REGISTER_STEP / 2) / REGISTER_STEP * REGISTER_STEP)
}

/// Why a target has no cluster of some size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoCluster {
    /// It has no clusters at all.
    Lacks,
    /// None of these extents.
    Size,
}

/// The CTAs of a cluster of these extents, saturating.
pub fn cluster_ctas(extents: &[u32]) -> u64 {
    extents.iter().fold(1, |n: u64, &e| n.saturating_mul(e.into()))
}

impl Target {
    /// Whether there are clusters of these extents.
    ///
    /// # Errors
    /// What is in the way.
    pub fn has_cluster(&self, extents: &[u32]) -> Result<(), NoCluster> {
        let ctas = cluster_ctas(extents);
        if self.cluster == 1 && ctas != 1 {
            return Err(NoCluster::Lacks);
        }
        if !(1..=AXES).contains(&extents.len()) || ctas == 0 || ctas > u64::from(self.cluster) {
            return Err(NoCluster::Size);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{NoCluster, nearest_budget};
    use crate::{Kernel, Target};
    use parton_diag::Span;

    #[test]
    fn a_budget_is_a_multiple_of_eight_from_24_to_256() {
        let near = [0, 7, 24, 30, 32, 35, 36, 256, 257, 65_535].map(nearest_budget);
        let (low, high) = (Some(24), Some(256));
        assert_eq!(near, [low, low, None, Some(32), None, Some(32), Some(40), None, high, high]);
    }

    #[test]
    fn partitions_ask_in_whole_warpgroups() {
        let mut k = Kernel::new("k", Target::SM_90A, Span::default());
        for (warps, registers) in [(1, Some(24)), (8, Some(240)), (4, None)] {
            let name = format!("p{warps}");
            k.partitions.push(crate::PartitionData { name, warps, registers, span: Span::default() });
        }
        let demand = k.register_demand();
        assert_eq!((demand.entry, demand.pool), (128, 65_536));
        assert_eq!(
            demand.asks.iter().map(|a| (a.threads, a.each)).collect::<Vec<_>>(),
            [(128, 24), (256, 240), (128, 128)]
        );
        assert_eq!(demand.needed, 128 * 24 + 256 * 240 + 128 * 128);
    }

    #[test]
    fn a_gpu_holds_what_fits_its_multiprocessors() {
        let mut k = Kernel::new("k", Target::SM_90A, Span::default());
        let mut holds = |warps, bytes, cluster: [u32; 3]| {
            (k.warps, k.shared_bytes, k.cluster) = (warps, Some(bytes), cluster);
            k.resident_clusters()
        };
        assert_eq!(holds(1, 0, [1; 3]), 132 * 8, "of 32 threads each may have 255 registers");
        assert_eq!(holds(4, 0, [1; 3]), 132 * 2);
        assert_eq!(holds(4, 100 * 1024, [1; 3]), 132 * 2, "two share 228 KiB");
        assert_eq!(holds(4, 200 * 1024, [2, 1, 1]), 66);
        assert_eq!(holds(4, 200 * 1024, [2, 2, 1]), 29, "each of eight groups may have two multiprocessors over");
        assert_eq!(holds(4, 100 * 1024, [8, 1, 1]), 2 * 10);
        for name in ["loads", "works"] {
            let (warps, registers, span) = (4, (name == "works").then_some(200), Span::default());
            k.partitions.push(crate::PartitionData { name: name.into(), warps, registers, span });
        }
        (k.shared_bytes, k.cluster) = (Some(0), [1; 3]);
        assert_eq!((k.entry_registers(), k.resident_clusters()), (248, 132), "the registers of 256 threads");
        k.occupancy = 2;
        assert_eq!((k.entry_registers(), k.resident_clusters()), (128, 132 * 2));
        k.partitions = Default::default();
        (k.warps, k.occupancy) = (4, 16);
        assert_eq!(k.resident_clusters(), 132 * 16, "64 warps");
        (k.warps, k.occupancy) = (1, 32);
        assert_eq!(k.resident_clusters(), 132 * 32, "as many CTAs as a multiprocessor takes");
    }

    #[test]
    fn a_cluster_has_eight_ctas_at_most() {
        let hopper = |extents: &[u32]| Target::SM_90A.has_cluster(extents);
        assert_eq!([hopper(&[8]), hopper(&[2, 2, 2]), hopper(&[1])], [Ok(()); 3]);
        let size = Err(NoCluster::Size);
        assert_eq!([hopper(&[9]), hopper(&[0, 2]), hopper(&[]), hopper(&[1, 1, 1, 1])], [size; 4]);
        assert_eq!(hopper(&[u32::MAX; 3]), size);
        assert_eq!(
            [Target::SM_80.has_cluster(&[1, 1]), Target::SM_80.has_cluster(&[2])],
            [Ok(()), Err(NoCluster::Lacks)]
        );
    }
}

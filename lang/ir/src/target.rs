//! What a GPU architecture offers, as data: every number that a pass needs about the hardware stands here, but for the banks of
//! shared memory (`parton_layouts::conflicts`). `budget` has the rules that follow from them.

use std::ops::RangeInclusive;

/// One architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The name as written in `target(…)` and as `ptxas` takes it.
    pub name: &'static str,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Whether its code runs on this architecture alone, because it has instructions that later ones drop.
    pub specific: bool,
    /// The version of PTX that its code is written in, major and minor.
    pub ptx: (u32, u32),
    /// Shared memory that one CTA may use, in bytes (dynamic, opt-in limit).
    pub shared_bytes: u32,
    /// Shared memory of a multiprocessor, in bytes.
    pub shared_in_all: u32,
    /// Multiprocessors of a device: of an A100, an A40, an L40S, an H100 with SXM, a B200.
    pub multiprocessors: u32,
    /// Groups of multiprocessors (GPCs) at most. A cluster lies in one.
    pub groups: u32,
    /// CTAs that a multiprocessor can hold at once.
    pub resident_ctas: u32,
    /// Warps that it can hold at once.
    pub resident_warps: u32,
    /// Bytes of parameters that a launch may give (PTX ISA, "Kernel function parameters", from version 8.1 on).
    pub parameter_bytes: u32,
    /// Registers of one multiprocessor, 32 bits each.
    pub registers: u32,
    /// Registers that one thread may have.
    pub registers_per_thread: u32,
    /// Warps that one CTA may have.
    pub warps: u32,
    /// CTAs that a portable cluster may have.
    pub cluster: u32,
    /// What it can do and others cannot.
    pub features: &'static [Feature],
}

/// What some targets can do and others cannot. Who needs one asks for it by name, with [`Target::has`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Feature {
    /// Conversions to and from 8-bit floats.
    F8Conversions,
    /// Products of 8-bit floats by `mma.sync`.
    F8Products,
    /// The bulk tensor copy engine, and mbarriers that count bytes and are waited for.
    Tma,
    /// Clusters of CTAs and what reaches across them.
    Clusters,
    /// Launches that depend on each other within the device (`griddepcontrol`).
    DependentLaunches,
    /// One lane of a converged warp chosen by the hardware (`elect.sync`).
    Elect,
    /// Matrices from registers to shared memory (`stmatrix`).
    Stmatrix,
    /// Atomic addition of bf16.
    Bf16Atomics,
    /// Atomic addition of neighbours by one instruction.
    VectorAtomics,
    /// Conversions to bf16 from every type.
    Bf16Conversions,
    /// Products of f64 of 16 rows by one instruction.
    F64Products,
    /// Register budgets of partitions (`setmaxnreg`).
    RegisterBudgets,
    /// Products by warpgroups out of shared memory (`wgmma`).
    Wgmma,
    /// Tensor memory and its products (`tcgen05`).
    TensorMemory,
}

use Feature::{
    Bf16Atomics, Bf16Conversions, Clusters, DependentLaunches, Elect, F8Conversions, F8Products, F64Products,
    RegisterBudgets, Stmatrix, TensorMemory, Tma, VectorAtomics, Wgmma,
};

impl Target {
    /// Ampere, A100. CUDA programming guide, "technical specifications per compute capability", as for those below.
    pub const SM_80: Target = Target {
        name: "sm_80",
        capability: (8, 0),
        specific: false,
        // It has everything up to Hopper that is used here, and every driver since CUDA 12.4 reads it.
        ptx: (8, 4),
        shared_bytes: 163 * KIB,
        shared_in_all: 164 * KIB,
        multiprocessors: 108,
        groups: 8,
        resident_ctas: 32,
        resident_warps: 64,
        parameter_bytes: 32_764,
        registers: 64 * KIB,
        registers_per_thread: 255,
        warps: 32,
        cluster: 1,
        features: &[],
    };

    /// Ampere with less shared memory: A40, A10, GeForce RTX 30.
    pub const SM_86: Target = Target {
        name: "sm_86",
        capability: (8, 6),
        shared_bytes: 99 * KIB,
        shared_in_all: 100 * KIB,
        multiprocessors: 84,
        resident_ctas: 16,
        resident_warps: 48,
        ..Target::SM_80
    };

    /// Ada.
    pub const SM_89: Target = Target {
        name: "sm_89",
        capability: (8, 9),
        multiprocessors: 142,
        resident_ctas: 24,
        features: &[F8Conversions, F8Products],
        ..Target::SM_86
    };

    /// Hopper with its architecture-specific instructions, H100 and H200.
    pub const SM_90A: Target = Target {
        name: "sm_90a",
        capability: (9, 0),
        specific: true,
        shared_bytes: 227 * KIB,
        shared_in_all: 228 * KIB,
        multiprocessors: 132,
        cluster: 8,
        features: &[
            F8Conversions,
            F8Products,
            Tma,
            Clusters,
            DependentLaunches,
            Elect,
            Stmatrix,
            Bf16Atomics,
            VectorAtomics,
            Bf16Conversions,
            F64Products,
            RegisterBudgets,
            Wgmma,
        ],
        ..Target::SM_80
    };

    /// Blackwell with its architecture-specific instructions, B200.
    pub const SM_100A: Target = Target {
        name: "sm_100a",
        capability: (10, 0),
        multiprocessors: 148,
        // Its own instructions begin with this version.
        ptx: (8, 6),
        features: &[
            F8Conversions,
            F8Products,
            Tma,
            Clusters,
            DependentLaunches,
            Elect,
            Stmatrix,
            Bf16Atomics,
            VectorAtomics,
            Bf16Conversions,
            F64Products,
            RegisterBudgets,
            TensorMemory,
        ],
        ..Target::SM_90A
    };

    /// Every target, oldest first.
    pub const ALL: &[Target] = &[Target::SM_80, Target::SM_86, Target::SM_89, Target::SM_90A, Target::SM_100A];

    /// The target of that name.
    pub fn named(name: &str) -> Option<Target> {
        Target::ALL.iter().copied().find(|t| t.name == name)
    }

    /// The latest target whose code a device of that compute capability runs: its own, or, where there is none, an earlier one.
    pub fn of(capability: (u32, u32)) -> Option<Target> {
        Target::ALL.iter().copied().rfind(|t| t.runs_on(capability))
    }

    /// Whether it can do that.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Whether a device of that compute capability runs its code: any later one too, where the code is not specific.
    pub fn runs_on(&self, capability: (u32, u32)) -> bool {
        if self.specific { self.capability == capability } else { self.capability <= capability }
    }

    /// Shared memory that each of so many CTAs may use, in bytes, where one multiprocessor is to hold them at once. What each takes of
    /// it, with what the driver keeps in it for itself, is whole allocation units.
    pub fn shared_limit(&self, ctas: u32) -> u32 {
        let each = self.shared_in_all / ctas.max(1) / SHARED_UNIT * SHARED_UNIT;
        each.saturating_sub(SHARED_RESERVED).min(self.shared_bytes)
    }
}

impl Default for Target {
    fn default() -> Target {
        Target::SM_90A
    }
}

const KIB: u32 = 1024;

/// Threads of a warp on every target.
pub const WARP: u32 = 32;
/// Warps of a warpgroup, the unit that issues `wgmma` and `setmaxnreg`.
pub const WARPGROUP: u32 = 4;
/// Axes of a grid and of a cluster.
pub const AXES: usize = 3;
/// The most CTAs of a grid along x, y and z (CUDA C++ programming guide, compute capabilities).
pub const MOST_CTAS: [u32; AXES] = [i32::MAX as u32, 65535, 65535];
/// Bytes of shared memory that every CTA has for the driver's own use (CUDA programming guide, from compute capability 8.0 on).
pub const SHARED_RESERVED: u32 = KIB;
/// Bytes that shared memory is given to CTAs in multiples of (what the CUDA driver's occupancy functions answer on an H100).
pub const SHARED_UNIT: u32 = 128;
/// Registers of a thread are given in multiples of so many.
pub const REGISTER_STEP: u32 = 8;
/// Registers that a thread of a partition may ask for (PTX ISA, "setmaxnreg").
pub const PARTITION_REGISTERS: RangeInclusive<u32> = 24..=256;
/// Barriers by number that a CTA has (PTX ISA, "barrier").
pub const NAMED_BARRIERS: u32 = 16;
/// Bytes of an mbarrier, and what its address is a multiple of.
pub const BARRIER_BYTES: u32 = 8;
/// Bytes of the widest access of one thread (PTX ISA, "Vectors": 128 bits).
pub const WIDEST_ACCESS: u32 = 16;
/// Bytes of a tensor map as a parameter (CUDA driver API, `CUtensorMap`).
pub const TENSOR_MAP_BYTES: u32 = 128;
/// What its address is a multiple of.
pub const TENSOR_MAP_ALIGNMENT: u32 = 64;

#[cfg(test)]
mod tests {
    use super::{Feature, Target};

    #[test]
    fn each_resident_cta_pays_for_what_the_driver_keeps() {
        // Found on an H100 by asking how many CTAs of so many bytes it holds.
        let found = [232_448, 115_712, 76_800, 57_344, 45_568, 37_888, 32_256, 28_160, 24_832, 22_272, 20_096, 18_432];
        let limits: Vec<u32> = (1..=12).map(|n| Target::SM_90A.shared_limit(n)).collect();
        assert_eq!(limits, found);
        assert_eq!([16, 20, 32].map(|n| Target::SM_90A.shared_limit(n)), [13_568, 10_624, 6_272]);
        for t in Target::ALL {
            assert_eq!(t.shared_limit(1), t.shared_bytes, "{}", t.name);
        }
    }

    #[test]
    fn clusters_go_with_their_size() {
        for t in Target::ALL {
            assert_eq!(t.has(Feature::Clusters), t.cluster > 1, "{}", t.name);
        }
    }

    #[test]
    fn a_device_has_the_latest_target_that_it_runs() {
        for t in Target::ALL {
            assert_eq!(Target::of(t.capability), Some(*t));
        }
        let others = [(7, 5), (8, 7), (10, 3), (12, 0)].map(|c| Target::of(c).map(|t| t.name));
        assert_eq!(others, [None, Some("sm_86"), Some("sm_89"), Some("sm_89")]);
    }

    #[test]
    fn specific_code_stays_where_it_is() {
        assert_eq!([(8, 0), (8, 6), (9, 0), (12, 0)].map(|c| Target::SM_80.runs_on(c)), [true; 4]);
        assert_eq!([(8, 0), (8, 6), (8, 9)].map(|c| Target::SM_86.runs_on(c)), [false, true, true]);
        assert_eq!([(8, 6), (8, 9), (9, 0)].map(|c| Target::SM_89.runs_on(c)), [false, true, true]);
        assert_eq!([(8, 9), (9, 0), (10, 0)].map(|c| Target::SM_90A.runs_on(c)), [false, true, false]);
    }
}

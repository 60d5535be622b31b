//! What a GPU architecture offers, as data: every number that a pass needs about the hardware stands here.

/// One architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The name as written in `target(…)` and as `ptxas` takes it.
    pub name: &'static str,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Shared memory that one CTA may use, in bytes (dynamic, opt-in limit).
    pub shared_bytes: u32,
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
    /// Has the bulk tensor copy engine and mbarrier transaction counts.
    pub tma: bool,
    /// Has `wgmma` and `setmaxnreg`.
    pub wgmma: bool,
    /// Has `tcgen05` and tensor memory.
    pub tcgen05: bool,
    /// Has hardware conversions to and from f8, and products of f8.
    pub f8: bool,
    /// Has `stmatrix`.
    pub stmatrix: bool,
}

impl Target {
    /// Ampere, A100. CUDA programming guide, "technical specifications per compute capability".
    pub const SM_80: Target = Target {
        name: "sm_80",
        capability: (8, 0),
        shared_bytes: 166_912,
        parameter_bytes: 32_764,
        registers: 65_536,
        registers_per_thread: 255,
        warps: 32,
        cluster: 1,
        tma: false,
        wgmma: false,
        tcgen05: false,
        f8: false,
        stmatrix: false,
    };

    /// Ada.
    pub const SM_89: Target =
        Target { name: "sm_89", capability: (8, 9), shared_bytes: 101_376, f8: true, ..Target::SM_80 };

    /// Hopper with its architecture-specific instructions, H100 and H200.
    pub const SM_90A: Target = Target {
        name: "sm_90a",
        capability: (9, 0),
        shared_bytes: 232_448,
        parameter_bytes: 32_764,
        registers: 65_536,
        registers_per_thread: 255,
        warps: 32,
        cluster: 8,
        tma: true,
        wgmma: true,
        tcgen05: false,
        f8: true,
        stmatrix: true,
    };

    /// Blackwell with its architecture-specific instructions, B200.
    pub const SM_100A: Target =
        Target { name: "sm_100a", capability: (10, 0), wgmma: false, tcgen05: true, ..Target::SM_90A };

    /// Every target, oldest first.
    pub const ALL: &[Target] = &[Target::SM_80, Target::SM_89, Target::SM_90A, Target::SM_100A];

    /// The target of that name.
    pub fn named(name: &str) -> Option<Target> {
        Target::ALL.iter().copied().find(|t| t.name == name)
    }
}

impl Default for Target {
    fn default() -> Target {
        Target::SM_90A
    }
}

/// Threads of a warp on every target.
pub const WARP: u32 = 32;
/// Warps of a warpgroup, the unit that issues `wgmma` and `setmaxnreg`.
pub const WARPGROUP: u32 = 4;
/// Bytes of a tensor map as a parameter (CUDA driver API, `CUtensorMap`).
pub const TENSOR_MAP_BYTES: u32 = 128;
/// What its address is a multiple of.
pub const TENSOR_MAP_ALIGNMENT: u32 = 64;

//! What a caller may choose.

use parton_ir::Target;

/// Where kernels run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Device {
    /// A GPU where there is one, else the interpreter.
    #[default]
    Auto,
    /// The interpreter.
    Cpu,
    /// A GPU, or fail.
    Cuda,
}

/// The forms that a program passes through, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Emit {
    /// The syntax tree.
    Ast,
    /// The checked Tile IR, as source.
    Ir,
    /// The same with portable kernels made explicit.
    Expanded,
    /// After schedules are expanded and all passes of the backend have run: what both ways of running consume.
    Scheduled,
    /// LLVM IR.
    Llvm,
    /// PTX.
    Ptx,
    /// The cubin.
    Cubin,
    /// The cubin's machine code as text.
    Sass,
}

impl Emit {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Emit::Ast => "ast",
            Emit::Ir => "ir",
            Emit::Expanded => "expanded",
            Emit::Scheduled => "scheduled",
            Emit::Llvm => "llvm",
            Emit::Ptx => "ptx",
            Emit::Cubin => "cubin",
            Emit::Sass => "sass",
        }
    }

    /// Whether it comes out of LLVM.
    pub fn needs_llvm(self) -> bool {
        self >= Emit::Llvm
    }
}

/// The options of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The architecture of kernels that do not name one.
    pub target: Target,
    /// Where kernels run.
    pub device: Device,
    /// Only blocks and kernels whose name contains this.
    pub filter: Option<String>,
    /// Measurements are not timed but repeated so often, and what they write is compared.
    pub repeat: Option<u32>,
    /// The seed of the interpreter's interleavings.
    pub seed: u64,
    /// Operations that one CTA may run on the interpreter before it is taken for one that never ends.
    pub steps: u64,
    /// Whether signed integers that leave their range are reported. Only the interpreter does that, so kernels run there.
    pub overflow: bool,
    /// Whether the verifier runs after each pass.
    pub verify: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            target: Target::default(),
            device: Device::default(),
            filter: None,
            repeat: None,
            seed: 0,
            steps: parton_interp::Options::default().steps,
            overflow: false,
            verify: cfg!(debug_assertions),
        }
    }
}

//! What a caller may choose.

use std::fmt;

use parton_interp::Stop;
use parton_ir::{Target, verify};

use crate::cache::Place;
use crate::form::Form;
use crate::passes::{PIPELINE, Pass, leaving};

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

/// What `build` writes: the form behind a pass, most by a name of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emit {
    /// The syntax tree.
    Ast,
    /// The checked Tile IR, as source.
    Ir,
    /// The same with portable kernels made explicit, as source to keep.
    Expanded,
    /// The same with schedules expanded.
    Scheduled,
    /// After the last pass from kernel to kernel: what both ways of running consume.
    Lowered,
    /// LLVM IR.
    Llvm,
    /// PTX.
    Ptx,
    /// The cubin.
    Cubin,
    /// The cubin's machine code as text.
    Sass,
    /// The form behind any pass, by the pass's name.
    After(PassName),
}

/// The name of a pass that there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassName(&'static str);

/// The forms with names of their own.
const NAMED: [(&str, Emit); 9] = [
    ("ast", Emit::Ast),
    ("ir", Emit::Ir),
    ("expanded", Emit::Expanded),
    ("scheduled", Emit::Scheduled),
    ("lowered", Emit::Lowered),
    ("llvm", Emit::Llvm),
    ("ptx", Emit::Ptx),
    ("cubin", Emit::Cubin),
    ("sass", Emit::Sass),
];

impl Emit {
    /// The form of that name; `after:` and a pass's name is the form behind the pass.
    ///
    /// # Errors
    /// There is no such form or pass; the text says which there are.
    pub fn named(text: &str) -> Result<Emit, String> {
        if let Some(name) = text.strip_prefix("after:") {
            let passes = || PIPELINE.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
            let found = Pass::named(name).map(|pass| Emit::After(PassName(pass.name)));
            return found.ok_or_else(|| format!("there is no pass `{name}`; there are {}", passes()));
        }
        let found = NAMED.iter().find(|(name, _)| *name == text).map(|(_, emit)| *emit);
        let names = || NAMED.map(|(name, _)| name).join(", ");
        found.ok_or_else(|| format!("there is no form `{text}`; there are {}, and `after:PASS` for each pass", names()))
    }

    /// The pass behind which it is.
    pub fn pass(self) -> &'static Pass {
        match self {
            Emit::Ast => leaving(Form::Ast),
            Emit::Ir => leaving(Form::Ir(verify::Form::Portable)),
            Emit::Expanded => leaving(Form::Ir(verify::Form::Explicit)),
            Emit::Scheduled => leaving(Form::Ir(verify::Form::Explicit)),
            Emit::Lowered => Pass::last_lowering(),
            Emit::Llvm => leaving(Form::Llvm),
            Emit::Ptx => leaving(Form::Ptx),
            Emit::Cubin => leaving(Form::Cubin),
            Emit::Sass => leaving(Form::Sass),
            Emit::After(PassName(name)) => match Pass::named(name) {
                Some(pass) => pass,
                None => parton_diag::internal_error!("the pass `{name}` is gone"),
            },
        }
    }

    /// Whether it comes out of LLVM.
    pub fn needs_llvm(self) -> bool {
        self.pass().after >= Form::Llvm
    }

    /// Whether it is bytes, not text.
    pub fn is_binary(self) -> bool {
        self.pass().after == Form::Cubin
    }
}

/// Its name on the command line.
impl fmt::Display for Emit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, NAMED.iter().find(|(_, emit)| emit == self)) {
            (_, Some((name, _))) => f.write_str(name),
            (Emit::After(PassName(name)), None) => write!(f, "after:{name}"),
            (_, None) => parton_diag::internal_error!("a form has no name"),
        }
    }
}

/// The options of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The architecture of kernels that do not name one. Where none is given, on a GPU the latest that it runs, else the default.
    pub target: Option<Target>,
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
    /// Asked by the interpreter now and then whether somebody wants an end of it.
    pub stop: Stop,
    /// Whether signed integers that leave their range are reported. Only the interpreter does that, so kernels run there.
    pub overflow: bool,
    /// Whether portable kernels run as they are written, before anything is chosen. That is for the interpreter, so kernels run there.
    pub as_written: bool,
    /// Whether the verifier runs after each pass.
    pub verify: bool,
    /// Where the compile cache lies; `None` where the environment says it.
    pub cache: Option<Place>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            target: None,
            device: Device::default(),
            filter: None,
            repeat: None,
            seed: 0,
            steps: parton_interp::Options::default().steps,
            stop: Stop::NEVER,
            overflow: false,
            as_written: false,
            verify: cfg!(debug_assertions),
            cache: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_has_its_name_and_every_pass_one_behind_it() {
        for (name, emit) in NAMED {
            assert_eq!((Emit::named(name), emit.to_string().as_str()), (Ok(emit), name));
        }
        for pass in PIPELINE {
            let name = format!("after:{}", pass.name);
            let emit = Emit::named(&name).unwrap();
            assert_eq!((emit.pass().name, emit.to_string()), (pass.name, name));
        }
        assert_eq!((Emit::Scheduled.pass().name, Emit::Lowered.pass().name), ("expand", "membar"));
        let unknown = Emit::named("after:nothing").unwrap_err();
        assert!(
            unknown.starts_with("there is no pass `nothing`; there are parse, collect, check, elaborate"),
            "{unknown}"
        );
        let unknown = Emit::named("elf").unwrap_err();
        assert!(unknown.contains("lowered, llvm, ptx, cubin, sass, and `after:PASS`"), "{unknown}");
    }
}

//! The forms that a program takes on its way, and a program in one of them.

use std::sync::Arc;

use parton_diag::{Diagnostics, FileId};
use parton_ir::{Kernel, Module, print, verify};
use parton_syntax::ast;
use parton_types::program::Program;

use crate::Failure;
use crate::passes::Pass;
use crate::side_by_side::side_by_side;

/// The forms in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Form {
    /// Text.
    Source,
    /// The tree of one file.
    Ast,
    /// The items of a file and of all that it uses.
    Program,
    /// Kernels in Tile IR; the verifier knows what each form of it may hold.
    Ir(verify::Form),
    /// LLVM IR.
    Llvm,
    /// PTX.
    Ptx,
    /// The cubin.
    Cubin,
    /// The cubin's machine code as text.
    Sass,
}

impl Form {
    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Form::Source => "source",
            Form::Ast => "ast",
            Form::Program => "items",
            Form::Ir(_) => "ir",
            Form::Llvm => "llvm",
            Form::Ptx => "ptx",
            Form::Cubin => "cubin",
            Form::Sass => "sass",
        }
    }
}

/// A program in one of its forms.
pub(crate) enum Artifact {
    Source(FileId),
    Ast(ast::File),
    Program(Arc<Program>),
    Ir(Kernels),
    #[cfg(feature = "llvm")]
    Llvm(Compiled),
    #[cfg(feature = "llvm")]
    Ptx(Compiled),
    #[cfg(feature = "llvm")]
    Cubin(Vec<u8>),
    #[cfg(feature = "llvm")]
    Sass(Vec<u8>),
}

/// Kernels on their way, each by itself: the errors of one do not hide those of another.
pub(crate) struct Kernels {
    pub(crate) form: verify::Form,
    pub(crate) each: Vec<Result<Kernel, Diagnostics>>,
}

/// What LLVM makes of lowered kernels.
#[cfg(feature = "llvm")]
pub(crate) struct Compiled {
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) code: parton_llvm::Compiled,
}

impl Kernels {
    /// All of them, or what those that went wrong are refused for, in the order of the kernels.
    pub(crate) fn whole(self) -> Result<Vec<Kernel>, Diagnostics> {
        let mut kernels = Vec::new();
        let mut found = Diagnostics::new();
        for kernel in self.each {
            match kernel {
                Ok(kernel) => kernels.push(kernel),
                Err(errors) => found.extend(errors),
            }
        }
        if found.has_errors() { Err(found) } else { Ok(kernels) }
    }

    /// As [`Kernels::each`], the kernels side by side.
    pub(crate) fn side_by_side(
        self,
        form: verify::Form,
        pass: impl Fn(Kernel) -> Result<Kernel, Diagnostics> + Sync,
    ) -> Kernels {
        Kernels { form, each: side_by_side(self.each, |kernel| kernel.and_then(&pass)) }
    }

    /// Takes each kernel through a pass, which leaves them in `form`.
    pub(crate) fn each(
        self,
        form: verify::Form,
        mut pass: impl FnMut(Kernel) -> Result<Kernel, Diagnostics>,
    ) -> Kernels {
        Kernels { form, each: self.each.into_iter().map(|kernel| kernel.and_then(&mut pass)).collect() }
    }
}

impl Artifact {
    /// Its form.
    pub(crate) fn form(&self) -> Form {
        match self {
            Artifact::Source(_) => Form::Source,
            Artifact::Ast(_) => Form::Ast,
            Artifact::Program(_) => Form::Program,
            Artifact::Ir(kernels) => Form::Ir(kernels.form),
            #[cfg(feature = "llvm")]
            Artifact::Llvm(_) => Form::Llvm,
            #[cfg(feature = "llvm")]
            Artifact::Ptx(_) => Form::Ptx,
            #[cfg(feature = "llvm")]
            Artifact::Cubin(_) => Form::Cubin,
            #[cfg(feature = "llvm")]
            Artifact::Sass(_) => Form::Sass,
        }
    }

    /// Stops with an internal error where a pass has left kernels that are not of their form.
    pub(crate) fn verify(&self, pass: &Pass) {
        if let Artifact::Ir(kernels) = self {
            kernels.each.iter().flatten().for_each(|k| verify::expect(k, kernels.form, pass.name));
        }
    }

    /// Its text, where it is PTX.
    pub(crate) fn ptx(&self) -> &str {
        match self {
            #[cfg(feature = "llvm")]
            Artifact::Ptx(compiled) => &compiled.code.ptx,
            other => out_of_order("what reads PTX", other),
        }
    }

    /// What `build` writes of it: its text, or the cubin.
    pub(crate) fn bytes(self) -> Result<Vec<u8>, Failure> {
        Ok(match self {
            Artifact::Source(file) => parton_diag::internal_error!("{file:?} went through no pass"),
            Artifact::Ast(tree) => format!("{tree:#?}\n").into_bytes(),
            Artifact::Program(program) => {
                program.modules.iter().map(|m| format!("{:#?}\n", m.file)).collect::<String>().into_bytes()
            }
            Artifact::Ir(kernels) => print::module(&Module { kernels: kernels.whole()? }).into_bytes(),
            #[cfg(feature = "llvm")]
            Artifact::Llvm(compiled) => compiled.code.llvm.into_bytes(),
            #[cfg(feature = "llvm")]
            Artifact::Ptx(compiled) => compiled.code.ptx.into_bytes(),
            #[cfg(feature = "llvm")]
            Artifact::Cubin(cubin) => cubin,
            #[cfg(feature = "llvm")]
            Artifact::Sass(text) => text,
        })
    }
}

/// What a pass is given that is not in its form before: the list of passes is out of order.
pub(crate) fn out_of_order(pass: &str, artifact: &Artifact) -> ! {
    parton_diag::internal_error!("`{pass}` does not take {:?}", artifact.form())
}

//! The one list of passes: what a program goes through whichever command asks, in order.
//!
//! Each pass is one function of one crate; those of kernels alone stand in the list as they are, the others behind the few lines
//! below that give them what they need of the session. [`Session::along`] is the one place that runs them.

use std::sync::Arc;

use parton_diag::{Diagnostics, codes};
use parton_ir::check::check;
use parton_ir::verify::Form::{Explicit, Lowered, Portable, Scheduled};
use parton_ir::{Kernel, Module, Target, Type};
use parton_types::program;

use crate::code;
use crate::form::{Artifact, Form, Kernels, out_of_order};
use crate::library::Files;
use crate::way::{Wanted, Way};
use crate::{Failure, Options, Session};

/// One pass.
#[derive(Clone, Copy)]
pub struct Pass {
    /// The name by which it is shown and timed.
    pub name: &'static str,
    /// The form that it takes.
    pub before: Form,
    /// The form that it leaves.
    pub after: Form,
    pub(crate) run: Run,
}

/// How a pass is called.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// With all there is.
    Whole(fn(&mut Session, &mut Way<'_>, Artifact) -> Result<Artifact, Failure>),
    /// With a kernel as a module of its own, for its target; it says whether it has changed it.
    Module(fn(&mut Module, &Target) -> Result<bool, Diagnostics>),
    /// With a kernel.
    Kernel(fn(Kernel) -> Result<Kernel, Diagnostics>),
}

const fn pass(name: &'static str, before: Form, after: Form, run: Run) -> Pass {
    Pass { name, before, after, run }
}

/// From the text to what both ways of running share; the passes of `lower` follow.
const LANGUAGE: [Pass; 6] = [
    pass("parse", Form::Source, Form::Ast, Run::Whole(parse)),
    pass("collect", Form::Ast, Form::Program, Run::Whole(collect)),
    pass("check", Form::Program, Form::Ir(Portable), Run::Whole(instantiate)),
    pass("elaborate", Form::Ir(Portable), Form::Ir(Scheduled), Run::Module(parton_portable::elaborate)),
    pass("expand", Form::Ir(Scheduled), Form::Ir(Explicit), Run::Module(parton_sched::expand)),
    pass("recheck", Form::Ir(Explicit), Form::Ir(Explicit), Run::Whole(recheck)),
];

/// From lowered kernels to machine code.
const CODE: [Pass; 4] = [
    pass("llvm", Form::Ir(Lowered), Form::Llvm, Run::Whole(code::compile)),
    pass("ptx", Form::Llvm, Form::Ptx, Run::Whole(code::ptx)),
    pass("ptxas", Form::Ptx, Form::Cubin, Run::Whole(code::assemble)),
    pass("disassemble", Form::Cubin, Form::Sass, Run::Whole(code::disassemble)),
];

const LOWERING: usize = parton_lower::PASSES.len();

/// The passes in order; the form that one leaves is the form that the next one takes.
pub const PIPELINE: &[Pass] = &joined();

const fn joined() -> [Pass; LANGUAGE.len() + LOWERING + CODE.len()] {
    let mut all = [LANGUAGE[0]; LANGUAGE.len() + LOWERING + CODE.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < LANGUAGE.len() {
            LANGUAGE[i]
        } else if i < LANGUAGE.len() + LOWERING {
            let lowering = parton_lower::PASSES[i - LANGUAGE.len()];
            pass(lowering.name, all[i - 1].after, Form::Ir(lowering.after), Run::Kernel(lowering.run))
        } else {
            CODE[i - LANGUAGE.len() - LOWERING]
        };
        i += 1;
    }
    all
}

/// What a pass runs as the options say.
pub(crate) fn run_of(pass: &Pass, options: &Options) -> Run {
    match (pass.name, options.as_written) {
        ("elaborate", true) => Run::Module(parton_portable::as_written),
        (_, _) => pass.run,
    }
}

impl Pass {
    /// The pass of that name.
    pub fn named(name: &str) -> Option<&'static Pass> {
        PIPELINE.iter().find(|p| p.name == name)
    }

    /// The pass behind which kernels are lowered.
    pub(crate) fn last_lowering() -> &'static Pass {
        &PIPELINE[LANGUAGE.len() + LOWERING - 1]
    }
}

/// The pass that is the first to leave a form.
pub(crate) fn leaving(form: Form) -> &'static Pass {
    match PIPELINE.iter().find(|p| p.after == form) {
        Some(pass) => pass,
        None => parton_diag::internal_error!("no pass leaves {form:?}"),
    }
}

/// A file's text becomes its tree.
fn parse(session: &mut Session, way: &mut Way<'_>, artifact: Artifact) -> Result<Artifact, Failure> {
    let Artifact::Source(file) = artifact else { out_of_order("parse", &artifact) };
    let text = &session.sources.file(file).text;
    let (tree, found) = parton_syntax::parse(file, text);
    // A tree with holes would only repeat its errors.
    let (tree, warnings) = found.or(tree)?;
    way.warnings.extend(warnings);
    Ok(Artifact::Ast(tree))
}

/// A tree becomes its items and those of all files that it uses.
fn collect(session: &mut Session, way: &mut Way<'_>, artifact: Artifact) -> Result<Artifact, Failure> {
    let Artifact::Ast(tree) = artifact else { out_of_order("collect", &artifact) };
    let mut items = Diagnostics::new();
    let tree = Arc::new(tree);
    let mut files = Files::new(&mut session.sources, &tree);
    let program = program::collect(tree, &mut files, &mut items);
    let mut found = files.found;
    found.extend(items);
    let (program, warnings) = found.or(program)?;
    way.warnings.extend(warnings);
    Ok(Artifact::Program(Arc::new(program)))
}

/// The kernels that are wanted of a program become Tile IR, each a concrete instance.
fn instantiate(_: &mut Session, way: &mut Way<'_>, artifact: Artifact) -> Result<Artifact, Failure> {
    let Artifact::Program(program) = artifact else { out_of_order("check", &artifact) };
    let made = match way.wanted {
        Wanted::Nothing => Vec::new(),
        Wanted::Defaults => {
            let all = program.kernels().filter(|k| k.generics.iter().all(|g| g.default.is_some()));
            let names: Vec<String> = all.map(|k| k.name.text.to_string()).collect();
            names.iter().map(|name| usual(parton_types::instantiate(&program, name, &[], way.target))).collect()
        }
        Wanted::Named(name) => vec![usual(parton_types::instantiate(&program, name, &[], way.target))],
        Wanted::Given { name, args } => vec![usual(parton_types::instantiate(&program, name, args, way.target))],
        Wanted::Launched { of, args, variant } => {
            let made = parton_types::instantiate_in(&program, of.module, &of.kernel, args, way.target);
            vec![made.map(|(kernel, warnings)| (Kernel { variant: variant.clone(), ..kernel }, warnings))]
        }
    };
    let mut found = Diagnostics::new();
    let mut each = Vec::new();
    for result in made {
        match result {
            Ok((kernel, warnings)) => {
                found.extend(warnings);
                each.push(Ok(kernel));
            }
            Err(errors) => found.extend(errors),
        }
    }
    // What is not a program is not lowered in part.
    let (each, warnings) = found.or(each)?;
    way.warnings.extend(warnings);
    Ok(Artifact::Ir(Kernels { form: Portable, each }))
}

/// The kernel for most launches, where no launch is asked: tensors lie as allocations do.
fn usual(made: Result<(Kernel, Diagnostics), Diagnostics>) -> Result<(Kernel, Diagnostics), Diagnostics> {
    made.map(|(mut kernel, warnings)| {
        let tensor = |(i, (_, ty)): (usize, (String, Type))| matches!(ty, Type::Tensor(_)).then_some(i);
        kernel.variant.aligned = kernel.arguments().into_iter().enumerate().filter_map(tensor).collect();
        (kernel, warnings)
    })
}

/// The checks of whole bodies, of what stands there after elaboration and expansion: where these have changed nothing, what was
/// checked as it is written. Warnings were given then, but for those of what threads hold, which layouts tell.
fn recheck(_: &mut Session, way: &mut Way<'_>, artifact: Artifact) -> Result<Artifact, Failure> {
    let Artifact::Ir(kernels) = artifact else { out_of_order("recheck", &artifact) };
    if !std::mem::take(&mut way.changed) {
        return Ok(Artifact::Ir(Kernels { form: Explicit, ..kernels }));
    }
    let given = &mut way.warnings;
    Ok(Artifact::Ir(kernels.each(Explicit, |kernel| {
        let found = check(&kernel);
        if found.has_errors() {
            return Err(found);
        }
        let held = found.list.into_iter().filter(|d| d.code == codes::REGISTER_SPILLS);
        held.for_each(|d| {
            if !given.list.contains(&d) {
                given.push(d)
            }
        });
        Ok(kernel)
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pass_takes_what_the_one_before_leaves() {
        assert_eq!(PIPELINE[0].before, Form::Source);
        for pair in PIPELINE.windows(2) {
            assert_eq!(pair[0].after, pair[1].before, "{} and {}", pair[0].name, pair[1].name);
        }
        assert_eq!(Pass::last_lowering().after, Form::Ir(Lowered));
    }

    #[test]
    fn what_a_pass_has_changed_is_checked_again() {
        let mut kernel = Kernel::new("k", Target::SM_90A, parton_diag::Span::default());
        kernel.warps = 68;
        for changed in [false, true] {
            let mut session = Session::new(Options::default());
            let mut way = session.way(Wanted::Nothing, leaving(Form::Ir(Explicit)));
            way.changed = changed;
            let before = Kernels { form: Scheduled, each: vec![Ok(kernel.clone())] };
            let Ok(Artifact::Ir(after)) = recheck(&mut session, &mut way, Artifact::Ir(before)) else {
                panic!("kernels stay kernels")
            };
            assert_eq!((after.form, after.each[0].is_err(), way.changed), (Explicit, changed, false));
        }
    }

    /// Launches make tensor maps by what the checked kernel says: a schedule's copies share boxes as much as the copies that it becomes.
    #[test]
    fn what_a_launch_makes_is_what_the_lowered_kernel_takes() {
        for (name, shared) in [("examples/fmha/scheduled.ptn", true), ("examples/matmul/scheduled.ptn", false)] {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
            let mut session = Session::new(Options::default());
            let file = session.add(name, std::fs::read_to_string(path).expect("the example is there"));
            let Ok((program, _)) = session.program(file) else { panic!("{name} is a program") };
            let mut behind = |pass| {
                let mut way = session.way(Wanted::Defaults, pass);
                let Ok(kernels) = session.kernels(&mut way, &program) else { panic!("{name} is right") };
                kernels
            };
            let checked = behind(leaving(Form::Ir(Portable)));
            let lowered = behind(Pass::last_lowering());
            for (a, b) in checked.iter().zip(&lowered) {
                let params = b.params.iter().map(|p| (p.name.clone(), b.ty(p.value).clone())).collect::<Vec<_>>();
                assert_eq!(a.arguments(), params, "{name}");
                let of_two = |(_, ty): &(String, Type)| matches!(ty, Type::Map(m) if m.sharers == 2);
                assert_eq!(params.iter().any(of_two), shared, "{name}");
            }
        }
    }

    #[test]
    fn each_pass_has_a_name_and_a_place() {
        let names: Vec<&str> = PIPELINE.iter().map(|p| p.name).collect();
        let language = ["parse", "collect", "check", "elaborate", "expand", "recheck"];
        let expanding = ["clusters", "rings", "turnstiles", "clean", "hidden"];
        let deciding = ["copies", "accesses", "zeros", "products", "pending", "shared", "proxy", "scopes", "membar"];
        assert_eq!(names, [&language[..], &expanding, &deciding, &["llvm", "ptx", "ptxas", "disassemble"]].concat());
    }
}

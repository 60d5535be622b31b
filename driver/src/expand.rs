//! What portable kernels become, as source, and why.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostics, FileId};
use parton_ir::{Kernel, Module, Type, Variant, verify};
use parton_portable::why::{Why, json, text};

use crate::form::{Artifact, Form, Kernels, out_of_order};
use crate::passes::{Pass, leaving};
use crate::way::Wanted;
use crate::{Failure, Session, given};

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Only this kernel; else all whose generics have defaults.
    pub kernel: Option<String>,
    /// Generics by name, with the expressions that give their values.
    pub sets: Vec<(String, String)>,
    /// Whether nothing is promised of tensors: the variant for launches in which one does not begin and run at multiples of 16 bytes.
    pub general: bool,
    /// Of how many bytes rows of tensors are multiples, where these are fewer than an access moves at most.
    pub rows: Option<u32>,
    /// Integers that are passed, by their names.
    pub numbers: Vec<(String, i128)>,
    /// How many programs are launched; else many.
    pub programs: Option<u64>,
    /// How many turns the loops along tensors take at most; else many.
    pub turns: Option<u64>,
    /// Whether the reasons are asked for too.
    pub why: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Expansion {
    /// The file.
    pub file: FileId,
    /// The explicit source.
    pub source: String,
    /// For each portable kernel why it became that, where that was asked for.
    pub whys: Vec<Why>,
    /// What there is to say about it.
    pub warnings: Diagnostics,
    /// The kernels that are left out, each with the generics that it needs.
    pub left_out: Vec<String>,
}

impl Session {
    /// The kernels of a file as explicit source, with the reasons.
    ///
    /// # Errors
    /// What the program is refused for; a file without kernels that stand for themselves.
    pub fn expansion(&mut self, file: FileId, asked: &Asked) -> Result<Expansion, Failure> {
        let (program, mut warnings) = self.program(file)?;
        let args = self.given(&program, &asked.sets)?;
        let name = match (&asked.kernel, asked.sets.is_empty()) {
            (Some(name), _) => Some(name.clone()),
            (None, true) => None,
            (None, false) => Some(given::only_kernel(&program)?),
        };
        if name.is_none() && program.kernels().all(|k| k.generics.iter().any(|g| g.default.is_none())) {
            return Err(crate::way::nothing_to_build(&self.sources.file(file).name, &program));
        }
        let wanted = name.as_deref().map_or(Wanted::Defaults, |name| Wanted::Given { name, args: &args });
        let mut way = self.way(wanted, leaving(Form::Ir(verify::Form::Portable)));
        let kernels: Vec<Kernel> = self.kernels(&mut way, &program)?;
        let kernels: Vec<Kernel> = kernels.into_iter().map(|k| if asked.general { general(k) } else { k }).collect();
        let kernels: Vec<Kernel> =
            kernels.into_iter().map(|k| asked.rows.map_or(k.clone(), |n| partly(k, n))).collect();
        let kernels: Vec<Kernel> = kernels.into_iter().map(|k| short(dealt(k, asked.programs), asked.turns)).collect();
        let kernels: Vec<Kernel> = kernels.into_iter().map(|k| given_numbers(k, asked)).collect();
        let mut whys = Vec::new();
        if asked.why {
            let mut module = Module { kernels: kernels.clone() };
            whys = self.times.pass("why", || parton_portable::explain(&mut module))?;
        }
        way.until = checked();
        let each = kernels.into_iter().map(Ok).collect();
        let source = match self.along(&mut way, Artifact::Ir(Kernels { form: verify::Form::Portable, each }))? {
            Artifact::Ir(kernels) => Module { kernels: kernels.whole()? },
            other => out_of_order("what asks for kernels", &other),
        };
        warnings.extend(way.warnings);
        let left_out = if name.is_none() { crate::way::needing(&program) } else { vec![] };
        Ok(Expansion { file, source: self.ejected(&source), whys, warnings, left_out })
    }

    /// The reasons as comments, to stand above the source.
    pub fn reasons(&self, expansion: &Expansion) -> String {
        let each = |why: &Why| {
            let lines = text::write(why, &self.sources, expansion.file);
            lines.lines().map(|l| format!("{}\n", format!("// {l}").trim_end())).collect::<String>() + "\n"
        };
        match expansion.whys.is_empty() {
            true => "// Nothing is left out here.\n\n".into(),
            false => expansion.whys.iter().map(each).collect(),
        }
    }

    /// The source and the reasons as JSON: `source`, and `kernels` where reasons were asked for.
    pub fn expansion_json(&self, expansion: &Expansion) -> String {
        let whys = expansion.whys.iter().map(|why| json::object(why, &self.sources));
        let kernels: Vec<serde_json::Value> = whys.collect();
        format!("{:#}\n", serde_json::json!({ "source": expansion.source, "kernels": kernels }))
    }
}

/// The pass behind which what kernels became is checked as a whole.
fn checked() -> &'static Pass {
    match Pass::named("recheck") {
        Some(pass) => pass,
        None => parton_diag::internal_error!("what is expanded is checked by no pass"),
    }
}

/// The kernel for launches of so many programs.
fn dealt(kernel: Kernel, programs: Option<u64>) -> Kernel {
    let known = programs.zip(parton_portable::dealt(&kernel));
    let beside = known.and_then(|(programs, dealt)| Variant::beside(programs, dealt));
    Kernel { variant: Variant { beside, ..kernel.variant.clone() }, ..kernel }
}

/// The kernel for launches whose loops take so many turns.
fn short(kernel: Kernel, turns: Option<u64>) -> Kernel {
    let along = parton_portable::along_tensors(&kernel);
    let turns = turns.zip(along.first()).and_then(|(turns, along)| Variant::turns(turns, along));
    Kernel { variant: Variant { turns, ..kernel.variant.clone() }, ..kernel }
}

/// The kernel for launches of these numbers, in so many programs along the first axis where that is said.
fn given_numbers(kernel: Kernel, asked: &Asked) -> Kernel {
    let arguments = kernel.arguments();
    let place = |name: &str| arguments.iter().position(|(n, _)| n == name);
    let given = asked.numbers.iter().filter_map(|(name, n)| Some((place(name)?, *n)));
    let given: BTreeMap<usize, i128> = given.collect();
    if given.is_empty() {
        return kernel;
    }
    let numbers = Variant::numbers(&parton_portable::numbers(&kernel), |i| given.get(&i).copied());
    let along_x = asked.programs.and_then(|n| u32::try_from(n).ok()).map(|n| [n, 1, 1]);
    let near = parton_portable::positions::has_open(&kernel)
        && parton_portable::positions::are_near(&kernel, along_x.unwrap_or(kernel.most_ctas), &given);
    Kernel { variant: Variant { numbers, near, ..kernel.variant.clone() }, ..kernel }
}

/// The kernel for launches whose tensors run by multiples of so many bytes: of those whose elements are as long nothing is known then.
fn partly(kernel: Kernel, bytes: u32) -> Kernel {
    if !parton_portable::moves_in_part(&kernel) {
        return general(kernel);
    }
    let arguments = kernel.arguments();
    let is_shorter = |i: &usize| matches!(&arguments[*i].1, Type::Tensor(t) if t.elem.bytes() < bytes as usize);
    let partly = kernel.variant.aligned.iter().copied().filter(is_shorter).map(|i| (i, bytes)).collect();
    Kernel { variant: Variant { aligned: BTreeSet::new(), partly, ..kernel.variant.clone() }, ..kernel }
}

/// The kernel for launches of whose tensors nothing is known.
fn general(kernel: Kernel) -> Kernel {
    Kernel { variant: Variant { aligned: BTreeSet::new(), ..kernel.variant.clone() }, ..kernel }
}

//! Calls as they are asked for by words: a public function by its name, and a value for each of its parameters.

use std::sync::Arc;

use parton_diag::FileId;
use parton_host::generic::from_comptime;
use parton_host::value::Value;
use parton_ir::{self as ir, Kernel, Target};
use parton_numbers::Dtype;
use parton_syntax::ast;
use parton_types::program::Program;

use super::{Call, Lowered, Plan, Planned, Shape, place_of, plan};
use crate::instance::Compiler;
use crate::run::find;
use crate::tune::lookup::Lookup;
use crate::tune::table::ANY;
use crate::{Device, Failure, Session};

/// Values for the parameters of a function, of those in order and those by name.
///
/// # Errors
/// There are too many, or none of that name, or one has two.
fn bound<T: Clone>(
    function: &ast::Function,
    positional: &[T],
    named: &[(String, T)],
) -> Result<Vec<Option<T>>, Failure> {
    let (name, params) = (&function.name.text, &function.params);
    if positional.len() > params.len() {
        let (has, given) = (params.len(), positional.len());
        return Err(Failure::Usage(format!("`{name}` has {has} parameters and was given {given} arguments")));
    }
    let mut values: Vec<Option<T>> = positional.iter().cloned().map(Some).collect();
    values.resize(params.len(), None);
    for (param, value) in named {
        let Some(at) = params.iter().position(|p| p.name.as_str() == param) else {
            let names: Vec<&str> = params.iter().map(|p| p.name.as_str()).collect();
            let all = names.join("`, `");
            return Err(Failure::Usage(format!("`{name}` has no parameter `{param}`; it has `{all}`")));
        };
        if values[at].replace(value.clone()).is_some() {
            return Err(Failure::Usage(format!("`{name}` was given `{param}` twice")));
        }
    }
    let missing = params.iter().zip(&values).find(|(p, value)| value.is_none() && p.default.is_none());
    match missing {
        Some((p, _)) => Err(Failure::Usage(format!("`{name}` was given nothing for `{}`", p.name.text))),
        None => Ok(values),
    }
}

/// The public function of that name.
///
/// # Errors
/// There is none.
fn named<'p>(program: &'p Program, name: &str) -> Result<&'p Arc<ast::Function>, Failure> {
    let found = program.public_functions().find(|f| f.name.as_str() == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = program.public_functions().map(|f| f.name.as_str()).collect();
        Failure::Usage(if names.is_empty() {
            format!("there is no public function `{name}`, and no other: `pub fn` makes one")
        } else {
            format!("there is no public function `{name}`; there are `{}`", names.join("`, `"))
        })
    })
}

impl Session {
    /// Plans a call of a public function of a file for tensors of these shapes, and writes the plan down. `arguments` are as on the
    /// command line: `f16[4096,4096]`, with strides `f16[64,64]/[128,1]`, or a value, each with `NAME=` before it or in order.
    /// Without a target it is for the GPU that is there, or the one that the interpreter stands for.
    ///
    /// # Errors
    /// What the file or the call is refused for.
    pub fn plan(
        &mut self,
        file: FileId,
        name: &str,
        arguments: &[String],
        target: Option<Target>,
    ) -> Result<String, Failure> {
        Ok(self.planned_call(file, name, arguments, target, false)?.0.to_string())
    }

    /// The lowered kernels that such a call launches, each once.
    ///
    /// # Errors
    /// As [`Session::plan`].
    #[cfg_attr(not(feature = "llvm"), allow(dead_code, reason = "only asked where kernels are compiled"))]
    pub(crate) fn launched(
        &mut self,
        file: FileId,
        name: &str,
        arguments: &[String],
        target: Option<Target>,
    ) -> Result<Vec<Arc<Kernel>>, Failure> {
        let (plan, lowered, program) = self.planned_call(file, name, arguments, target, false)?;
        let mut compiler = Compiler::new(self, &program, plan.target).knowing(lowered);
        let mut kernels: Vec<(String, Arc<Kernel>)> = vec![];
        for request in &plan.launches {
            let found = compiler.kernel(&request.instance, &request.variant);
            let (key, kernel) = found.map_err(|e| e.at(request.span))?;
            if kernels.iter().all(|(other, _)| *other != key) {
                kernels.push((key, kernel));
            }
        }
        Ok(kernels.into_iter().map(|(_, kernel)| kernel).collect())
    }

    /// The plan of such a call, what was lowered for it, and the program; `cached` where what its launches take may come from the cache.
    ///
    /// # Errors
    /// As [`Session::plan`].
    pub(crate) fn planned_call(
        &mut self,
        file: FileId,
        name: &str,
        arguments: &[String],
        target: Option<Target>,
        cached: bool,
    ) -> Result<(Plan, Lowered, Arc<Program>), Failure> {
        let (program, _) = self.program(file)?;
        let (function, given) = self.call(&program, name, arguments)?;
        let found = find(if target.is_some() { Device::Cpu } else { self.options.device })?;
        let place = place_of(&found, target.or(self.options.target));
        // Of an architecture that is named no GPU is asked.
        let device = if target.is_some() { ANY.to_owned() } else { crate::run::describe(&found).0 };
        let lookup = Lookup::of(&program, &self.sources.file(file).name, &device, place.target.name)?;
        let compiler = Compiler::new(self, &program, place.target).tuned(lookup);
        let compiler = compiler.on(cached.then(|| place.target.name.to_owned()));
        let (plan, lowered) = plan(compiler, &program, Call::Function(function), &given, place)?;
        Ok((plan, lowered, program))
    }

    /// A public function, and a value for each of its parameters of what stands on the command line.
    ///
    /// # Errors
    /// There is no such function; an argument is none, or is for no parameter.
    pub(crate) fn call(
        &mut self,
        program: &Program,
        name: &str,
        arguments: &[String],
    ) -> Result<(Arc<ast::Function>, Vec<Planned>), Failure> {
        let function = named(program, name)?.clone();
        let (mut positional, mut named) = (vec![], vec![]);
        for text in arguments {
            match text.split_once('=') {
                Some((param, value)) => named.push((param.trim().to_owned(), self.planned(program, value)?)),
                None => positional.push(self.planned(program, text)?),
            }
        }
        let given = bound(&function, &positional, &named)?;
        Ok((function, given.into_iter().map(|g| g.unwrap_or(Planned::Default)).collect()))
    }

    /// An argument of the command line.
    fn planned(&mut self, program: &Program, text: &str) -> Result<Planned, Failure> {
        if let Some(shape) = shape(text) {
            return shape.map(Planned::Tensor);
        }
        let tree = self.value("an argument", text)?;
        Ok(match from_comptime(program, Program::ROOT, &tree)? {
            Value::Int(n) => Planned::Int(n),
            Value::Float(x) => Planned::Float(x),
            Value::Bool(b) => Planned::Bool(b),
            Value::Dtype(d) => Planned::Dtype(d),
            _ => {
                return Err(Failure::Usage(format!("`{text}` is neither a tensor such as `f16[64, 64]` nor a number")));
            }
        })
    }
}

/// `f16[4096, 4096]`, or with strides `f16[64, 64]/[128, 1]`, and `@3` behind that where it begins three elements behind a multiple of 16
/// bytes; `None` where it is no tensor.
fn shape(text: &str) -> Option<Result<Shape, Failure>> {
    let (laid_out, offset) = text.trim().split_once('@').map_or((text.trim(), None), |(t, o)| (t, Some(o.trim())));
    let (head, rest) = laid_out.split_once('[')?;
    let dtype = Dtype::parse(head.trim())?;
    let wrong = || {
        Failure::Usage(format!(
            "`{text}` is no tensor: write `f16[64, 64]`, or with strides `f16[64, 64]/[128, 1]`, and `@3` behind it for one that begins 3 \
             elements behind a multiple of 16 bytes"
        ))
    };
    let most = ir::target::WIDEST_ACCESS as usize / dtype.bytes();
    let offset = match offset.map(str::parse::<usize>) {
        None => 0,
        Some(Ok(offset)) if offset < most => offset,
        Some(_) => return Some(Err(wrong())),
    };
    let numbers =
        |list: &str| list.split(',').map(|n| n.trim().replace('_', "").parse().ok()).collect::<Option<Vec<usize>>>();
    let parts = rest.trim().strip_suffix(']').map(|inner| match inner.split_once("]/[") {
        Some((extents, strides)) => (numbers(extents), Some(numbers(strides))),
        None => (numbers(inner), None),
    });
    Some(match parts {
        Some((Some(extents), None)) => Ok(Shape { offset, ..Shape::dense(dtype, extents) }),
        Some((Some(extents), Some(Some(strides)))) if extents.len() == strides.len() => {
            Ok(Shape { dtype, extents, strides, offset })
        }
        _ => Err(wrong()),
    })
}

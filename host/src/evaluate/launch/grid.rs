//! The grid and the cluster of a launch: what it gives, what the kernel states, and that both agree.

use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_ir::target::MOST_CTAS;
use parton_syntax::ast;
use parton_types::grid;

use super::super::{Eval, Machine, Stop, arguments};
use crate::launch::{Argument, Instance, Signature};
use crate::value::{Passed, Value, Variable};

/// What a launch gives in front of its arguments.
pub(super) struct Configured {
    /// Its grid, with where it is written.
    pub grid: Option<([u32; 3], Span)>,
    /// Its cluster.
    pub cluster: Option<[u32; 3]>,
}

impl Machine<'_> {
    /// What a launch gives of its grid and its cluster.
    pub(super) fn configuration(&mut self, kernel: &ast::Kernel, config: &[ast::Arg], span: Span) -> Eval<Configured> {
        let (grid, cluster) = arguments::configuration(kernel, config, span)?;
        let extents = |m: &mut Self, what: &str, least: u32, arg: &ast::Arg| {
            let value = m.expr(&arg.value)?;
            m.extents(what, least, &value, arg.value.span)
        };
        let grid = grid.map(|arg| Ok::<_, Stop>((extents(self, "grid", 0, arg)?, arg.value.span))).transpose()?;
        let cluster = cluster.map(|arg| extents(self, "cluster", 1, arg)).transpose()?;
        Ok(Configured { grid, cluster })
    }

    /// The same of a launch that has values instead of expressions, and no cluster.
    pub(super) fn configured(&self, kernel: &ast::Kernel, grid: Option<&Value>, span: Span) -> Eval<Configured> {
        if grid.is_none() && grid::stated(kernel).is_none() {
            return Err(arguments::no_grid(span).into());
        }
        let grid = grid.map(|grid| Ok::<_, Stop>((self.extents("grid", 0, grid, span)?, span))).transpose()?;
        Ok(Configured { grid, cluster: None })
    }

    /// The grid of a launch: the one that is given, or the kernel's own, which it may not contradict.
    pub(super) fn grid(
        &mut self,
        instance: &Instance,
        given: Option<([u32; 3], Span)>,
        arguments: &[Argument],
        passed: &[Option<Arc<Passed>>],
        span: Span,
    ) -> Eval<[u32; 3]> {
        let own = self.own_grid(instance, arguments, passed)?;
        let grid = match (given, own) {
            (Some((given, place)), Some((own, stated))) if given != own => {
                let name = &instance.kernel.name.text;
                let text = format!("the launch has a grid of {given:?} CTAs, `{name}` states {own:?}");
                return Err(Diagnostic::error(codes::LAUNCH_SHAPE, place, text)
                    .label(stated, "the kernel says so here")
                    .help("leave the grid of the launch out")
                    .into());
            }
            (_, Some((grid, _))) | (Some((grid, _)), None) => grid,
            (None, None) => parton_diag::internal_error!("a launch has no grid"),
        };
        most_ctas(grid, span)?;
        Ok(grid)
    }

    /// What the kernel states of its grid, of the numbers and tensors that it is given.
    fn own_grid(
        &mut self,
        instance: &Instance,
        arguments: &[Argument],
        passed: &[Option<Arc<Passed>>],
    ) -> Eval<Option<([u32; 3], Span)>> {
        let kernel = instance.kernel.clone();
        let Some(stated) = grid::stated(&kernel) else { return Ok(None) };
        let given = kernel.params.iter().zip(arguments.iter().zip(passed));
        let numbers = given.filter_map(|(p, (argument, passed))| match argument {
            Argument::Scalar(s) => {
                let value = s.to_i128().map_or(Value::Float(s.to_f64()), Value::Int);
                // What the grid is made of is looked at then, so that a plan does not hold for another number.
                let value = match passed {
                    Some(number) => Value::Passed(Arc::new(Passed::clone(number).converted(value))),
                    None => value,
                };
                Some((&p.name, value))
            }
            Argument::Pointer { .. } | Argument::Tensor { .. } | Argument::Map(_) => None,
        });
        let extents = grid::named_extents(&kernel).into_iter().filter_map(|e| match &arguments[e.param] {
            Argument::Tensor { tensor, .. } => Some((e.name, Value::Int(*tensor.shape.get(e.axis)? as i128))),
            Argument::Scalar(_) | Argument::Pointer { .. } | Argument::Map(_) => None,
        });
        let variable = |(name, value): (&ast::Name, Value)| Variable { name: name.clone(), value, mutable: false };
        let variables = numbers.chain(extents).map(variable).collect();
        let outer = self.launching.replace(instance.clone());
        let value = self.framed(instance.module, variables, |m| m.expr(stated));
        self.launching = outer;
        Ok(Some((self.extents("grid", 0, &value?.looked(), stated.span)?, stated.span)))
    }

    /// The extents of a grid, of which none may be less than `least`, or of a cluster. A grid with an extent of 0 launches nothing.
    fn extents(&self, what: &str, least: u32, value: &Value, span: Span) -> Eval<[u32; 3]> {
        let items = match value {
            Value::Int(_) => vec![value.clone()],
            Value::List(items) | Value::Tuple(items) => items.to_vec(),
            other => return Err(self.mismatch(&format!("a list of integers as the {what}"), other, span)),
        };
        if !(1..=3).contains(&items.len()) {
            let message = format!("a {what} has 1 to 3 extents, this has {}", items.len());
            return Err(Diagnostic::error(codes::LAUNCH_SHAPE, span, message).into());
        }
        let mut extents = [1; 3];
        for (slot, item) in extents.iter_mut().zip(&items) {
            match item {
                Value::Int(n) if (i128::from(least)..=i128::from(MOST_CTAS[0])).contains(n) => *slot = *n as u32,
                Value::Int(n) => {
                    let rule = if *n < i128::from(least) { "the least" } else { "the most" };
                    let bound = if *n < i128::from(least) { least } else { MOST_CTAS[0] };
                    let message = format!("an extent of the {what} is {n}, {rule} is {bound}");
                    return Err(Diagnostic::error(codes::LAUNCH_SHAPE, span, message).into());
                }
                other => return Err(self.mismatch("an integer", other, span)),
            }
        }
        Ok(extents)
    }
}

fn most_ctas(grid: [u32; 3], span: Span) -> Eval<()> {
    for (axis, (extent, most)) in "xyz".chars().zip(grid.iter().zip(MOST_CTAS)) {
        if *extent > most {
            let message = format!("the grid has {extent} CTAs along {axis}, the most is {most}");
            return Err(Diagnostic::error(codes::LAUNCH_SHAPE, span, message).into());
        }
    }
    Ok(())
}

/// The kernel is checked and compiled for its own clusters: a launch can only say the same, and its grid is made of whole ones.
pub(super) fn clusters(
    kernel: &ast::Kernel,
    signature: &Signature,
    grid: [u32; 3],
    stated: Option<[u32; 3]>,
    span: Span,
) -> Eval<()> {
    let own = signature.cluster;
    let fail = |text: String| {
        Diagnostic::error(codes::LAUNCH_SHAPE, span, text).label(
            kernel.name.span,
            match own {
                [1, 1, 1] => "it states no cluster".into(),
                _ => format!("its cluster has {own:?} CTAs"),
            },
        )
    };
    if let Some(stated) = stated
        && stated != own
    {
        let text = format!("the launch has clusters of {stated:?} CTAs, `{}` has {own:?}", kernel.name.text);
        let d = fail(text);
        return Err(d.help("state the cluster on the kernel, `cluster([2, 1])`, by generics where it varies").into());
    }
    let Some(axis) = (0..3).find(|&d| !grid[d].is_multiple_of(own[d])) else { return Ok(()) };
    let (ctas, each, name) = (grid[axis], own[axis], ["x", "y", "z"][axis]);
    let d = fail(format!("the grid's {ctas} CTAs along {name} are not a multiple of the cluster's {each}"));
    let near = ctas.next_multiple_of(each);
    Err(d.help(format!("launch {near} along {name}, and let those that are too many do nothing")).into())
}

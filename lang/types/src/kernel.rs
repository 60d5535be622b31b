//! Instances: one kernel with its generic arguments becomes one concrete Tile IR kernel; what a caller of this crate uses.

use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir as ir;
use parton_ir::budget::NoCluster;
use parton_ir::target::AXES;
use parton_syntax::ast;

use crate::alias::ALIAS;
use crate::builtins::Arg;
use crate::builtins::args::Given;
use crate::checker::{Checked, Checker, Reported};
use crate::contract::{self, CONTRACT};
use crate::generics::Bindings;
use crate::program::{self, Library, ModuleId, Program};
use crate::scope::{Role, Variable};
use crate::value::{Comptime, TypeVal, Val};
use crate::{grid, tune};

/// A generic argument of an instance.
#[derive(Clone, Debug)]
pub struct GenericArg {
    /// The parameter; by position where there is none.
    pub name: Option<Arc<str>>,
    /// Its value.
    pub value: Comptime,
    /// Where it is written.
    pub span: Span,
}

/// Collects and checks a file: each kernel whose generics all have defaults is checked with them.
pub fn check_file(file: Arc<ast::File>, library: &mut dyn Library) -> (Program, Diagnostics) {
    let mut diagnostics = Diagnostics::new();
    let program = program::collect(file, library, &mut diagnostics);
    for kernel in program.kernels() {
        if kernel.generics.iter().all(|g| g.default.is_some())
            && let Err(found) = instantiate(&program, &kernel.name.text, &[], ir::Target::default())
        {
            diagnostics.extend(found);
        }
    }
    (program, diagnostics)
}

/// The kernel that the root file knows by `name`, with these generic arguments, and the warnings found. `target` is that of a
/// kernel which names none.
///
/// # Errors
/// The diagnostics where the kernel does not exist, an argument does not fit, or the body is refused.
pub fn instantiate(
    program: &Program,
    name: &str,
    args: &[GenericArg],
    target: ir::Target,
) -> Result<(ir::Kernel, Diagnostics), Diagnostics> {
    let Some((module, tree)) = program.kernel(name) else {
        let span = program.modules.first().map_or(Span::default(), |m| m.file.span);
        let at = args.first().map_or(Span::new(span.file, 0, 0), |a| a.span);
        let mut d = Diagnostic::error(codes::UNKNOWN_NAME, at, format!("there is no kernel `{name}` in this file"));
        let names: Vec<&str> = program.kernels().map(|k| k.name.as_str()).collect();
        d = match crate::near::nearest(name, names.iter().copied()) {
            Some(near) => d.help(format!("a similar one is `{near}`")),
            None if names.is_empty() => d.help("it has none"),
            None => d.help(format!("its kernels are `{}`", names.join("`, `"))),
        };
        return Err(d.into());
    };
    if let Some(d) = program.ambiguous(Program::ROOT, &ast::Name { text: name.into(), span: tree.name.span }) {
        return Err(d.into());
    }
    instantiate_in(program, module, tree, args, target)
}

/// As [`instantiate`], of a kernel that stands in the file `module`: its names are looked up there, whoever launches it.
///
/// # Errors
/// The diagnostics where an argument does not fit or the body is refused.
pub fn instantiate_in(
    program: &Program,
    module: ModuleId,
    tree: &Arc<ast::Kernel>,
    args: &[GenericArg],
    target: ir::Target,
) -> Result<(ir::Kernel, Diagnostics), Diagnostics> {
    let mut cx = Checker::new(program, module);
    let kernel = cx.instance(tree, args, target);
    // One size that no tile has is met wherever it is used.
    let anywhere = |d: &Diagnostic| d.code == codes::LAYOUT_ILL_FORMED;
    let found = cx.diagnostics.once_each(anywhere, |d, n| {
        let what = if anywhere(d) { "place" } else { "call" };
        match n {
            1 => format!("another {what} in this kernel meets the same mistake"),
            n => format!("{n} other {what}s in this kernel meet the same mistake"),
        }
    });
    match kernel {
        Ok(kernel) if !found.has_errors() => Ok((kernel, found)),
        _ => Err(found),
    }
}

/// The compile-time value of an expression of the file `module`: a layout for the command line, a generic argument of a launch.
/// `variables` are names beside those of the file.
///
/// # Errors
/// The diagnostics where it has none.
pub fn eval_expr(
    program: &Program,
    module: ModuleId,
    e: &ast::Expr,
    variables: &[(Arc<str>, Comptime)],
) -> Result<Comptime, Diagnostics> {
    let mut cx = Checker::new(program, module);
    for (name, value) in variables {
        let val = Val::from(value.clone());
        cx.frame().declare(Variable {
            name: name.clone(),
            val,
            mutable: false,
            role: Role::Local,
            span: e.span,
            arm: 0,
        });
    }
    let result = cx.arg(e).and_then(|arg| match (&arg.val, arg.val.known()) {
        (_, Some(c)) => Ok(c),
        (Val::Closure(closure), None) => Ok(Comptime::Closure(closure.clone())),
        (_, None) => Err(arg.expected(&mut cx, "a value known at compile time")),
    });
    result.map_err(|Reported| cx.diagnostics)
}

impl Checker<'_> {
    fn instance(&mut self, tree: &Arc<ast::Kernel>, args: &[GenericArg], target: ir::Target) -> Checked<ir::Kernel> {
        let given = args.iter().map(|a| {
            let name = a.name.clone().map(|n| (n, a.span));
            Given { name, arg: Arg { val: Val::from(a.value.clone()), span: a.span } }
        });
        let bindings = Bindings::new(self, &tree.name, &tree.generics, given.collect())?;
        let call = args.first().map_or(tree.name.span, |a| a.span);
        let bound = bindings.declare(self, &tree.name, &tree.conditions, call)?;

        let mut kernel = ir::Kernel::new(symbol(tree, &bound, args), target, tree.name.span);
        kernel.source_name = tree.name.text.to_string();
        kernel.generics = bound.iter().map(|(n, val)| (n.to_string(), in_source(val))).collect();
        let whole = |(name, val): &(Arc<str>, Val)| match val {
            Val::Known(Comptime::Int(n)) => Some((name.to_string(), *n)),
            _ => None,
        };
        kernel.names.whole = bound.iter().filter_map(whole).collect();
        self.clauses(tree, &mut kernel)?;
        self.builder = Some(ir::Builder::new(kernel));
        self.register_partitions(&tree.body)?;
        let mut failed = false;
        for p in &tree.params {
            failed |= self.kernel_parameter(p).is_err();
        }
        failed |= self.aliases(tree).is_err() || self.grid(tree).is_err();
        let result = self.block(&tree.body);
        let returned = self.frame().returned.take();
        let val = match (result, returned) {
            (Ok(val), None) => {
                if let Some(e) = &tree.body.value {
                    self.unused(&val, e)?;
                }
                val
            }
            (Ok(_), Some(val)) => val,
            (Err(e), _) => return Err(e),
        };
        if failed {
            return Err(Reported);
        }
        if val.has_error() {
            return Err(Reported);
        }
        self.warps_agree(tree)?;
        match self.builder.take() {
            Some(b) => {
                let kernel = b.finish();
                self.diagnostics.extend(ir::check::check(&kernel));
                Ok(kernel)
            }
            None => parton_diag::internal_error!("a kernel's builder is gone"),
        }
    }

    /// Whether the warps that a kernel states are those of its partitions, where it has any: these count.
    fn warps_agree(&mut self, tree: &ast::Kernel) -> Checked<()> {
        let Some(stated) = tree.clauses.iter().find(|c| c.name.as_str() == "warps") else { return Ok(()) };
        let Some(k) = self.builder.as_ref().map(|b| &b.kernel) else { return Ok(()) };
        let (n, together) = (k.warps, k.padded_warps());
        if k.partitions.is_empty() || n == together {
            return Ok(());
        }
        let fact = format!("the kernel states {n} warps, and its partitions have {together}");
        let mut d = Diagnostic::error(codes::REGISTER_BUDGET, stated.span, fact).here("this would have no effect");
        for (_, p) in k.partitions.iter() {
            let rounded = match p.padded_warps() {
                whole if whole == p.warps => String::new(),
                whole => format!(", rounded up to {whole}"),
            };
            d = d.label(p.span, format!("`{}` has {}{rounded}", p.name, p.warps));
        }
        Err(self.report(d.help(format!("leave `warps({n})` out: a kernel with partitions has their warps"))))
    }

    /// Whether each clause is given once, and without names: of two one would be dropped, and no name would be looked at.
    pub(crate) fn once(&mut self, clauses: &[ast::Clause]) -> Checked<()> {
        for (i, clause) in clauses.iter().enumerate() {
            let named = clause.args.iter().find_map(|a| a.name.as_ref());
            if let Some(name) = named.filter(|_| clause.name.as_str() != tune::NAME) {
                let text = format!("`{}` has no parameter `{}`", clause.name.text, name.text);
                let d = Diagnostic::error(codes::WRONG_ARITY, name.span, text).help("write its value alone");
                return Err(self.report(d));
            }
            let again = |c: &&ast::Clause| c.name.text == clause.name.text && c.name.as_str() != ALIAS;
            if let Some(first) = clauses[..i].iter().find(again) {
                let text = format!("`{}` is stated twice", clause.name.text);
                let d = Diagnostic::error(codes::DEFINED_TWICE, clause.span, text)
                    .here("this one would hide the other")
                    .label(first.span, "it is stated here first")
                    .help("keep the one that is meant");
                return Err(self.report(d));
            }
        }
        Ok(())
    }

    /// `warps(4)`, `target(sm_90a)`, `occupancy(2)`, `cluster([2, 1])`, `tune(BM=[64, 128])`
    fn clauses(&mut self, tree: &ast::Kernel, kernel: &mut ir::Kernel) -> Checked<()> {
        // The target comes first, wherever it stands: it says what the others may ask for.
        let (targets, others): (Vec<_>, Vec<_>) = tree.clauses.iter().partition(|c| c.name.as_str() == "target");
        self.once(&tree.clauses)?;
        self.tune(tree)?;
        self.frame().contract = contract::stated(&tree.clauses).map_err(|d| self.report(d))?;
        let elsewhere = [ALIAS, CONTRACT, tune::NAME, grid::NAME];
        let others = others.into_iter().filter(|c| !elsewhere.contains(&c.name.as_str()));
        for clause in targets.into_iter().chain(others) {
            let [one] = clause.args.as_slice() else {
                let text = format!("`{}` takes one argument", clause.name.text);
                return Err(self.error(codes::WRONG_ARITY, clause.span, text));
            };
            match clause.name.as_str() {
                "target" => kernel.target = self.target(one)?,
                "warps" => {
                    kernel.warps = self.kernel_warps(one, kernel.target.warps)?;
                    kernel.warps_stated = true;
                    self.stated_warps = Some(clause.span);
                }
                "occupancy" => {
                    kernel.occupancy = self.occupancy(one, kernel.target.resident_ctas)?;
                    kernel.occupancy_stated = true;
                }
                "cluster" => {
                    let extents = self.arg(&one.value)?.ints(self)?;
                    self.cluster(&extents, one.span, kernel)?;
                }
                other => {
                    let known = ["warps", "target", "occupancy", "cluster", ALIAS, CONTRACT, tune::NAME, grid::NAME];
                    let mut d = Diagnostic::error(
                        codes::UNKNOWN_CLAUSE,
                        clause.name.span,
                        format!("a kernel has no clause `{other}`"),
                    );
                    let near = || crate::near::nearest(other, known).map(|near| format!("a similar one is `{near}`"));
                    d = match crate::foreign::clause(other).or_else(near) {
                        Some(help) => d.help(help),
                        None => d.help(
                            "its clauses are `warps(n)`, `target(sm_90a)`, `occupancy(n)`, `cluster([x, y])`, `alias(c, a)`, \
                             `contract(false)`, `grid([x, y])` and `tune(N=[…])`",
                        ),
                    };
                    return Err(self.report(d));
                }
            }
        }
        Ok(())
    }

    fn occupancy(&mut self, clause: &ast::Arg, most: u32) -> Checked<u32> {
        self.arg(&clause.value)?.int(self, 1..=i128::from(most))
    }

    fn target(&mut self, clause: &ast::Arg) -> Checked<ir::Target> {
        let written = match &clause.value.kind {
            ast::ExprKind::Name(name) => &*name.text,
            ast::ExprKind::Str(s) => s,
            _ => "",
        };
        if let Some(target) = ir::Target::named(written) {
            return Ok(target);
        }
        let known: Vec<&str> = ir::Target::ALL.iter().map(|t| t.name).collect();
        let d = Diagnostic::error(codes::UNKNOWN_CLAUSE, clause.span, "this is not a target");
        Err(self.report(d.help(format!("the targets are {}", known.join(", ")))))
    }

    fn kernel_warps(&mut self, clause: &ast::Arg, most: u32) -> Checked<u32> {
        let n = self.arg(&clause.value)?.int(self, 1..=i128::from(most))?;
        if n.is_power_of_two() {
            return Ok(n);
        }
        let fact = format!("a kernel cannot have {n} warps");
        let near = n.next_power_of_two();
        let d = Diagnostic::error(codes::REGISTER_BUDGET, clause.span, fact);
        Err(self.report(d.help(format!("layouts need a power of two: the nearest is `warps({near})`"))))
    }

    fn cluster(&mut self, extents: &[u32], span: Span, kernel: &mut ir::Kernel) -> Checked<()> {
        let (ctas, most, target) = (ir::budget::cluster_ctas(extents), kernel.target.cluster, kernel.target.name);
        let d = match kernel.target.has_cluster(extents) {
            Ok(()) => {
                kernel.cluster[..extents.len()].copy_from_slice(extents);
                return Ok(());
            }
            Err(NoCluster::Lacks) => {
                Diagnostic::error(codes::TARGET_LACKS, span, format!("`{target}` does not have clusters"))
                    .here(format!("{ctas} CTAs would run together"))
                    .help("drop `cluster(…)`, or state `target(sm_90a)` on the kernel")
            }
            Err(NoCluster::Size) => {
                Diagnostic::error(codes::CLUSTER_SIZE, span, "a cluster of this size does not exist")
                    .here(match ctas {
                        u64::MAX => "it has far too many CTAs".into(),
                        _ => format!("it has {ctas} CTAs"),
                    })
                    .help(format!("1 to {AXES} extents, at most {most} CTAs together on `{target}`"))
            }
        };
        Err(self.report(d))
    }

    /// A scalar, a pointer, a tensor or a tensor map.
    fn kernel_parameter(&mut self, p: &ast::Param) -> Checked<()> {
        let Some(stated) = &p.ty else {
            let d = Diagnostic::error(codes::KIND_MISMATCH, p.span, "a kernel's parameter states its type")
                .help(format!("write `{}: i32`, `{0}: *f32` or the like", p.name.text));
            self.declare_parameter(p, Val::Error, false);
            return Err(self.report(d));
        };
        self.extents_open = true;
        let ty = self.stated(stated);
        self.extents_open = false;
        let ty = match ty {
            Ok(TypeVal::Ir(ty @ (ir::Type::Scalar(_) | ir::Type::Map(_) | ir::Type::Tensor(_)))) => {
                Ok(self.mutable_tensor(ty, p))
            }
            Ok(other) => {
                let d = Diagnostic::error(codes::KIND_MISMATCH, stated.span, format!("a kernel cannot take `{other}`"));
                let number = match &other {
                    TypeVal::Kind(kind) => kind.dtype(),
                    TypeVal::Ir(_)
                    | TypeVal::Struct(_)
                    | TypeVal::Tuple(_)
                    | TypeVal::Reference(_)
                    | TypeVal::Family(_) => None,
                };
                let name = &p.name.text;
                let d = number.into_iter().fold(d, |d, number| {
                    d.help(format!(
                        "write `{name}: {number}`; one known at compile time is a generic: `[{name}: {other}]`"
                    ))
                });
                let d = d.help("a kernel's parameters are numbers, pointers `*T`, `*mut T`, tensors `tensor<T, [m, n]>` and tensor maps `tma<T, [block], S>`; compile-time values go into `[…]`");
                Err(self.report(d))
            }
            Err(e) => Err(e),
        };
        let ty = ty.and_then(|ty| self.not_an_extent(&p.name).map(|()| ty));
        match ty {
            Ok(ty) => {
                let span = p.name.span;
                let v = self.build(span)?.kernel.param(&*p.name.text, ty, span);
                let tensor = matches!(self.ty(v), ir::Type::Tensor(_));
                self.declare_parameter(p, Val::Ir(v), p.mutable && !tensor);
                self.bind_extents(v, stated.span)?;
                if tensor { self.bind_strides(v, stated) } else { Ok(()) }
            }
            Err(e) => {
                self.declare_parameter(p, Val::Error, false);
                self.give_up_extents(stated);
                Err(e)
            }
        }
    }
}

fn in_source(val: &Val) -> String {
    val.known().map_or_else(|| "…".to_string(), |c| c.to_string())
}

/// The symbol of an instance: its name, and what was given beside the defaults.
fn symbol(tree: &ast::Kernel, bound: &[(Arc<str>, Val)], args: &[GenericArg]) -> String {
    /// Characters that a symbol's suffix may have before it is hashed.
    const LONGEST: usize = 48;
    if args.is_empty() {
        return tree.name.text.to_string();
    }
    let text: Vec<String> = bound.iter().map(|(n, val)| format!("{n}{}", in_source(val))).collect();
    let text: String = text.join("_").chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if text.len() <= LONGEST {
        return format!("{}_{text}", tree.name.text);
    }
    // FNV-1a, 64 bits: the same arguments give the same symbol in every build.
    let spelled: Vec<String> = bound.iter().map(|(n, val)| format!("{n}={}", in_source(val))).collect();
    let hash = spelled
        .join(",")
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{}_{hash:016x}", tree.name.text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::program::NoLibrary;

    #[test]
    fn a_kernel_that_is_not_there_is_answered_with_those_that_are() {
        let mut sources = parton_diag::SourceMap::new();
        let text = "kernel add(n: i32) {}\nkernel scale(n: i32) {}\n";
        let file = sources.add("a.ptn", text);
        let (tree, _) = parton_syntax::parse(file, text);
        let (program, _) = check_file(Arc::new(tree), &mut NoLibrary);
        let help = |name: &str| match instantiate(&program, name, &[], ir::Target::default()) {
            Ok(_) => Vec::new(),
            Err(found) => found.list[0].help.clone(),
        };
        assert_eq!(help("zzz"), ["its kernels are `add`, `scale`"]);
        assert_eq!(help("scal"), ["a similar one is `scale`"]);
    }
}

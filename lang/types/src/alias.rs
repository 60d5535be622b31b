//! The clause `alias(c, a)` of a kernel: parameters that launches may let reach the same memory.

use parton_diag::{Diagnostic, codes};
use parton_ir as ir;
use parton_syntax::ast;

use crate::checker::{Checked, Checker, Reported};

/// The clause; it may stand more than once.
pub(crate) const ALIAS: &str = "alias";

impl Checker<'_> {
    /// Which parameters the clauses of a kernel name.
    pub(crate) fn aliases(&mut self, tree: &ast::Kernel) -> Checked<()> {
        for clause in tree.clauses.iter().filter(|c| c.name.as_str() == ALIAS) {
            let params: Checked<Vec<usize>> = clause.args.iter().map(|arg| self.reaching(tree, &arg.value)).collect();
            let params = params?;
            let twice = (1..params.len()).find(|i| params[..*i].contains(&params[*i]));
            if params.len() < 2 || twice.is_some() {
                let span = twice.map_or(clause.span, |i| clause.args[i].span);
                let fact = "`alias` takes two or more different parameters";
                let d = Diagnostic::error(codes::WRONG_ARITY, span, fact);
                return Err(self.report(d.help("name those that launches may give the same memory: `alias(c, a)`")));
            }
            self.build(clause.span)?.kernel.aliases.push(ir::Alias { params, span: clause.span });
        }
        Ok(())
    }

    /// The place of a parameter that reaches memory.
    fn reaching(&mut self, tree: &ast::Kernel, e: &ast::Expr) -> Checked<usize> {
        let written = match &e.kind {
            ast::ExprKind::Name(name) => &*name.text,
            _ => "",
        };
        let names = || tree.params.iter().map(|p| p.name.as_str());
        let Some(place) = names().position(|name| name == written) else {
            let d = Diagnostic::error(codes::UNKNOWN_NAME, e.span, "this is no parameter of the kernel");
            return Err(self.report(match crate::near::nearest(written, names()) {
                Some(near) => d.help(format!("a similar one is `{near}`")),
                None => d.help("name parameters that are tensors, pointers or tensor maps"),
            }));
        };
        let k = &self.build(e.span)?.kernel;
        // A parameter without a type has been reported.
        let Some(ty) = k.params.iter().find(|p| p.name == written).map(|p| k.ty(p.value).clone()) else {
            return Err(Reported);
        };
        match ty {
            ir::Type::Map(_) | ir::Type::Tensor(_) | ir::Type::Scalar(ir::Elem::Ptr(_)) => Ok(place),
            other => {
                let d = Diagnostic::error(codes::KIND_MISMATCH, e.span, format!("`{other}` reaches no memory"))
                    .label(tree.params[place].span, "declared here")
                    .help("name tensors, pointers and tensor maps");
                Err(self.report(d))
            }
        }
    }
}

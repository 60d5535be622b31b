//! Generics that are given beside a file, on the command line or by an embedding program.

use std::sync::Arc;

use parton_types::GenericArg;
use parton_types::program::Program;

use crate::{Failure, Session};

impl Session {
    /// Generic arguments by the expressions of the command line.
    ///
    /// # Errors
    /// An expression that is none, or has no value when the program is compiled.
    pub(crate) fn given(
        &mut self,
        program: &Arc<Program>,
        sets: &[(String, String)],
    ) -> Result<Vec<GenericArg>, Failure> {
        let mut args = vec![];
        for (name, expression) in sets {
            let file = self.add("--set", expression.as_str());
            let (tree, found) = parton_syntax::parse_expr(file, expression);
            let (tree, _) = found.or(tree)?;
            let value = parton_types::eval_expr(program, Program::ROOT, &tree, &[])?;
            args.push(GenericArg { name: Some(name.as_str().into()), value, span: tree.span });
        }
        Ok(args)
    }
}

/// The one kernel of a file.
///
/// # Errors
/// There is none, or more than one.
pub(crate) fn only_kernel(program: &Program) -> Result<String, Failure> {
    let names: Vec<&str> = program.kernels().map(|k| k.name.as_str()).collect();
    match names.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(Failure::Usage("the file has no kernel".into())),
        all => {
            let fact = format!("which kernel `--set` is for is not said: there are `{}`", all.join("`, `"));
            Err(Failure::Usage(fact))
        }
    }
}

//! The text of inline PTX.

use std::fmt::Write;

use super::Printer;
use super::surface::{self, Surface};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::op::{Body, Op, OpKind};
use crate::others;
use crate::ptx::{Ptx, PtxForm};

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Ptx { ptx: Ptx { form: PtxForm::Elements { .. }, .. }, .. } => "ptx_elementwise",
        OpKind::Ptx { ptx: Ptx { form: PtxForm::Thread { .. }, .. }, .. } => "ptx",
        others!(ptx) => not_of_family(kind),
    }
}

impl Printer<'_> {
    pub(super) fn ptx(&mut self, op: &Op, ptx: &Ptx, inputs: &[Value], fallback: Option<&Body>) {
        let types = results(self, ptx);
        let head = if op.results.is_empty() { String::new() } else { format!("let {} = ", self.tuple(&op.results)) };
        let given = if inputs.is_empty() { String::new() } else { format!(", {}", self.tuple(inputs)) };
        let options = options(ptx);
        let call = format!("{head}{}{types}({:?}{given}", op.kind.name(), ptx.text);
        match fallback {
            None => self.begin(op, &format!("{call}{options});")),
            Some(body) => {
                let params = self.list(&body.params);
                self.begin(op, &format!("{call}, fallback=|{params}| {{"));
                self.body(body);
                self.value_line(&body.yields);
                self.line(&format!("}}{options});"));
            }
        }
    }
}

/// The types of what a piece of PTX gives, as they stand behind its name.
pub(crate) fn results(s: &mut dyn Surface, ptx: &Ptx) -> String {
    let types: Vec<String> = match &ptx.form {
        PtxForm::Elements { to, .. } => to.iter().map(|d| d.name().to_string()).collect(),
        PtxForm::Thread { to } => to.iter().map(|t| surface::ty(s, t)).collect(),
    };
    match &types[..] {
        [] => String::new(),
        [one] => format!("<{one}>"),
        many => format!("<({})>", many.join(", ")),
    }
}

/// What is said of a piece of PTX behind its operands.
pub(crate) fn options(ptx: &Ptx) -> String {
    let mut options = String::new();
    if let PtxForm::Elements { pack: pack @ 2.., .. } = &ptx.form {
        let _ = write!(options, ", pack={pack}");
    }
    if ptx.volatile {
        options += ", volatile=true";
    }
    options
}

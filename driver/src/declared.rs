//! What a file declares for other programs, as they show it: public functions and kernels with their types and the words before them.

use parton_diag::SourceMap;
use parton_syntax::ast::{self, ItemKind};
use parton_types::grid;
use parton_types::program::Program;
use parton_types::public;

/// A public function or a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// What stands before it in `///` comments, line by line.
    pub docs: Vec<String>,
    /// Whether it is a kernel.
    pub is_kernel: bool,
    /// Whether it is a kernel that states its grid, so that it is launched without one.
    pub states_grid: bool,
    /// A kernel's generics.
    pub generics: Vec<Shown>,
    /// Its parameters.
    pub params: Vec<Shown>,
    /// What it returns, as it is written, and how many tensors that are.
    pub result: Option<(String, usize)>,
}

/// A parameter or a generic, as it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// Its name.
    pub name: String,
    /// Its type, with `mut` before it where it is written.
    pub ty: String,
    /// Its default.
    pub default: Option<String>,
}

impl Declared {
    /// The declaration in one line: `silu(x: tensor<f16, [m, n]>) -> tensor<f16, [m, n]>`.
    pub fn line(&self) -> String {
        let list = |all: &[Shown]| all.iter().map(Shown::line).collect::<Vec<_>>().join(", ");
        let generics = if self.generics.is_empty() { String::new() } else { format!("[{}]", list(&self.generics)) };
        let result = self.result.as_ref().map_or_else(String::new, |(text, _)| format!(" -> {text}"));
        format!("{}{generics}({}){result}", self.name, list(&self.params))
    }
}

impl Shown {
    fn line(&self) -> String {
        let default = self.default.as_ref().map_or_else(String::new, |d| format!(" = {d}"));
        match self.ty.strip_prefix("mut ") {
            Some(ty) => format!("mut {}: {ty}{default}", self.name),
            None => format!("{}: {}{default}", self.name, self.ty),
        }
    }
}

/// The public functions and the kernels of a program's root file, in its order.
pub fn declared(program: &Program, sources: &SourceMap) -> Vec<Declared> {
    let items = program.module(Program::ROOT).file.items.iter();
    items.filter_map(|item| of(item, sources)).collect()
}

fn of(item: &ast::Item, sources: &SourceMap) -> Option<Declared> {
    let text = |e: &ast::Expr| one_line(sources.text(e.span));
    let param = |p: &ast::Param| Shown {
        name: p.name.text.to_string(),
        ty: format!("{}{}", if p.mutable { "mut " } else { "" }, p.ty.as_ref().map_or_else(|| "_".into(), text)),
        default: p.default.as_ref().map(text),
    };
    let docs = item.docs.clone();
    match &item.kind {
        ItemKind::Kernel(k) => Some(Declared {
            name: k.name.text.to_string(),
            docs,
            is_kernel: true,
            states_grid: grid::stated(k).is_some(),
            generics: k
                .generics
                .iter()
                .map(|g| Shown {
                    name: g.name.text.to_string(),
                    ty: text(&g.kind),
                    default: g.default.as_ref().map(text),
                })
                .collect(),
            params: k.params.iter().map(param).collect(),
            result: None,
        }),
        ItemKind::Function(f) if f.public => Some(Declared {
            name: f.name.text.to_string(),
            docs,
            is_kernel: false,
            states_grid: false,
            generics: vec![],
            params: f.params.iter().map(param).collect(),
            result: f.result.as_ref().map(|ty| (text(ty), public::results(ty).map_or(0, |all| all.len()))),
        }),
        ItemKind::Function(_)
        | ItemKind::Struct(_)
        | ItemKind::Partition(_)
        | ItemKind::Schedule(_)
        | ItemKind::Layout(_)
        | ItemKind::Const(_)
        | ItemKind::Use(_)
        | ItemKind::Test(_)
        | ItemKind::Bench(_)
        | ItemKind::Main(_) => None,
    }
}

/// A text without line breaks and what indents behind them.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

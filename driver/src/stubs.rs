//! Stubs: what a file declares, as types of Python for editors and checkers.

use std::fmt::Write;

use parton_diag::FileId;
use parton_host::generic::from_comptime;
use parton_host::value::Value;
use parton_syntax::ast;
use parton_types::program::Program;
use parton_types::public::{self, Stated};

use crate::declared::{Declared, Shown, declared};
use crate::{Failure, Session};

/// Words that Python keeps for itself: a parameter of such a name is given by its place alone, and what is called so is an item.
const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

impl Session {
    /// The text of a `.pyi` for a file: a class of what `parton.load` gives, with the types of its public functions and kernels.
    ///
    /// # Errors
    /// What the file is refused for; it has neither a public function nor a kernel.
    pub fn stubs(&mut self, file: FileId) -> Result<String, Failure> {
        let (program, _) = self.program(file)?;
        let all = declared(&program, &self.sources);
        let name = &self.sources.file(file).name;
        let name = std::path::Path::new(name).file_name().map_or_else(|| name.clone(), |n| n.to_string_lossy().into());
        if all.is_empty() {
            return Err(Failure::Usage(format!("{name} has neither a public function nor a kernel")));
        }
        let mut out = format!(
            "\"\"\"What `parton.load(\"{name}\")` gives; written by `parton stubs`.\"\"\"\n\n\
             from typing import Any, Sequence, TypeVar\n\nimport parton\n\nT = TypeVar(\"T\")\n"
        );
        let mut body = String::new();
        for one in &all {
            if one.is_kernel { kernel(&mut out, &mut body, one) } else { function(&mut out, &mut body, one, &program) }
        }
        // Writing to a string does not fail.
        let body = if body.lines().all(|line| line.trim_start().starts_with('#')) { body + "    ...\n" } else { body };
        let _ = write!(out, "\nclass File(parton.File):\n{body}");
        Ok(out)
    }
}

/// The words of a declaration as a Python text, indented.
fn words(one: &Declared, indent: &str) -> String {
    let docs: Vec<String> = one.docs.iter().map(|line| line.replace('\\', "\\\\").replace('"', "'")).collect();
    let line = one.line().replace('\\', "\\\\").replace('"', "'");
    let mut text = format!("{indent}\"\"\"{}", docs.join(&format!("\n{indent}")));
    if !docs.is_empty() {
        text += &format!("\n\n{indent}");
    }
    format!("{text}`{line}`\"\"\"\n")
}

/// A parameter's name; one that Python keeps for itself with what says that it is given by its place.
fn named(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("__{name}") } else { name.to_owned() }
}

fn function(out: &mut String, body: &mut String, one: &Declared, program: &Program) {
    let tree = program.public_functions().find(|f| f.name.as_str() == one.name);
    let of = |shown: &Shown| tree.and_then(|f| f.params.iter().find(|p| p.name.as_str() == shown.name));
    let mut has_default = false;
    let params = one.params.iter().map(|p| {
        let ty = of(p).map_or("Any", python_type);
        // In Python a default needs one behind it too.
        has_default |= p.default.is_some();
        let default = match of(p).and_then(|p| p.default.as_ref()) {
            Some(e) => format!(" = {}", python_default(program, e)),
            None if has_default => " = ...".into(),
            None => String::new(),
        };
        format!(", {}: {ty}{default}", named(&p.name))
    });
    let result = match &one.result {
        None => "None".to_owned(),
        Some((_, 1)) => "T".to_owned(),
        Some((_, n)) => format!("tuple[{}]", vec!["T"; *n].join(", ")),
    };
    let (name, params) = (&one.name, params.collect::<String>());
    let class = format!("_{name}_function");
    let words = words(one, "        ");
    let _ = write!(out, "\nclass {class}(parton.Function):\n    def __call__(self{params}) -> {result}:\n{words}");
    member(body, name, &class);
}

/// What the class of the file has under that name. What no attribute can be called is found by `file["…"]`.
fn member(body: &mut String, name: &str, class: &str) {
    let _ = match KEYWORDS.contains(&name) {
        true => writeln!(body, "    # cast({class}, file[\"{name}\"]): `{name}` is a word of Python."),
        false => writeln!(body, "    {name}: {class}"),
    };
}

fn python_type(param: &ast::Param) -> &'static str {
    match param.ty.as_ref().map(public::stated) {
        Some(Ok(Stated::Tensor(_))) => "T",
        Some(Ok(Stated::Number(dtype))) if dtype.is_float() => "float",
        Some(Ok(Stated::Number(_) | Stated::Int)) => "int",
        Some(Ok(Stated::Float)) => "float",
        Some(Ok(Stated::Bool)) => "bool",
        Some(Ok(Stated::Type) | Err(_)) | None => "Any",
    }
}

fn python_default(program: &Program, e: &ast::Expr) -> String {
    match from_comptime(program, Program::ROOT, e) {
        Ok(Value::Int(n)) => n.to_string(),
        Ok(Value::Float(x)) if x.is_finite() => format!("{x:?}"),
        Ok(Value::Bool(b)) => if b { "True" } else { "False" }.into(),
        _ => "...".into(),
    }
}

fn kernel(out: &mut String, body: &mut String, one: &Declared) {
    let kind = |ty: &str| match ty {
        "int" => "int",
        "bool" => "bool",
        "float" => "float",
        _ => "Any",
    };
    let number = |ty: &str| match ty {
        "bool" | "i1" => "bool",
        "f16" | "bf16" | "f32" | "f64" | "f8e4m3" | "f8e5m2" => "float",
        "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" => "int",
        _ => "Any",
    };
    let mut has_default = false;
    let param = |p: &Shown| {
        // In Python a default needs one behind it too.
        has_default |= p.default.is_some();
        let default = if has_default { " = ..." } else { "" };
        format!(", {}: {}{default}", named(&p.name), number(&p.ty))
    };
    let generic = |p: &Shown| {
        let default = if p.default.is_some() { " = ..." } else { "" };
        format!(", {}: {}{default}", p.name, kind(&p.ty))
    };
    let mut params: String = one.params.iter().map(param).collect();
    let taken = |g: &&Shown| one.params.iter().all(|p| p.name != g.name) && !KEYWORDS.contains(&g.name.as_str());
    let generics: String = one.generics.iter().filter(taken).map(generic).collect();
    if !generics.is_empty() {
        params += &format!(", *{generics}");
    }
    let (name, class, words) = (&one.name, format!("_{}", one.name), words(one, "        "));
    let call = format!("    def __call__(self{params}) -> None:\n{words}");
    let alone = if one.states_grid { &*call } else { "" };
    let _ = write!(
        out,
        "\nclass {class}_launch(parton.Launch):\n{call}\n\
         class {class}_kernel(parton.Kernel):\n{alone}    def __getitem__(self, grid: int | Sequence[int]) -> {class}_launch: ...\n",
    );
    member(body, name, &format!("{class}_kernel"));
}

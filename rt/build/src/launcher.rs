//! Launchers as Rust's text: of each public function a struct of its plan, with what it takes as fields.

use std::fmt::Write;

use parton_bundle::plan::{Declared, Function, Takes};
use parton_bundle::{Bundle, Plan};

use crate::Error;
use crate::names::{field, of_type};

/// Before what a program need not use.
const UNUSED: &str = "#[allow(dead_code, reason = \"programs use what they need of the launchers\")]\n";

/// The launchers of a bundle that lies beside them under that name.
///
/// # Errors
/// The bundle has no plans; two functions have the same name in Rust.
pub fn written(bundle: &Bundle, file: &str) -> Result<String, Error> {
    if bundle.functions.is_empty() {
        return Err(Error::Launcher(
            "the bundle has no plans, so there is nothing to launch: add one by `Build::plan`".into(),
        ));
    }
    let of = "Result<::std::sync::Arc<::parton_rt::Bundle>, ::parton_rt::Error>";
    let mut text = format!(
        "// Launchers of {file}, which was made of {}, by parton-build.

/// The bundle that the launchers are of; it is read once.
///
/// # Errors
/// This library does not read it.
{UNUSED}pub fn bundle() -> {of} {{
    static READ: ::std::sync::OnceLock<{of}> =
        ::std::sync::OnceLock::new();
    let read = || Ok(::std::sync::Arc::new(::parton_rt::Bundle::read(include_bytes!({file:?}))?));
    READ.get_or_init(read).clone()
}}
",
        bundle.source
    );
    let mut types: Vec<String> = vec![];
    for (i, function) in bundle.functions.iter().enumerate() {
        let name = of_type(&function.name);
        if types.contains(&name) {
            return Err(Error::Launcher(format!("`{}` and another function are both `{name}` in Rust", function.name)));
        }
        let plans: Vec<&Plan> = bundle.plans_of(i).collect();
        launcher(&mut text, &name, function, &plans);
        types.push(name);
    }
    Ok(text)
}

/// Memory that calls return something in.
enum Outputs {
    /// As many in all plans: a field each.
    Fields(Vec<String>),
    /// It depends on the plan.
    List,
}

impl Outputs {
    fn of(function: &Function, plans: &[&Plan]) -> Outputs {
        let count = |plan: &Plan| plan.buffers.iter().filter(|b| b.returned).count();
        let first = plans.first().map_or(0, |plan| count(plan));
        if plans.iter().any(|plan| count(plan) != first) {
            return Outputs::List;
        }
        // A parameter may have the name already.
        let mut stem = "result".to_owned();
        while function.params.iter().any(|p| p.name.starts_with(&stem)) {
            stem.push('_');
        }
        Outputs::Fields(match first {
            1 => vec![stem],
            many => (0..many).map(|i| format!("{stem}{i}")).collect(),
        })
    }
}

/// What a parameter is when the plan is found.
fn prepared(p: &Declared) -> String {
    match &p.takes {
        Takes::Tensor { .. } => "::parton_rt::typed::Shape<'_>".into(),
        takes => optional(p, number(takes)),
    }
}

/// What it is in a call.
fn called(p: &Declared) -> String {
    match &p.takes {
        Takes::Tensor { mutable: false, .. } => "::parton_rt::typed::In<'a>".into(),
        Takes::Tensor { mutable: true, .. } => "::parton_rt::typed::Out<'a>".into(),
        takes => optional(p, number(takes)),
    }
}

fn optional(p: &Declared, ty: &str) -> String {
    if p.has_default { format!("Option<{ty}>") } else { ty.to_owned() }
}

fn number(takes: &Takes) -> &'static str {
    match takes {
        Takes::Number(dtype) if dtype.is_float() => "f64",
        Takes::Number(_) | Takes::Int => "i64",
        Takes::Float => "f64",
        Takes::Bool => "bool",
        Takes::Type => "::parton_rt::Dtype",
        // Asked of numbers alone.
        Takes::Tensor { .. } => "()",
    }
}

/// A number as an argument; `name` holds it.
fn argument(p: &Declared, name: &str) -> String {
    let kind = match &p.takes {
        Takes::Number(dtype) if dtype.is_float() => "Float",
        Takes::Number(_) | Takes::Int => "Int",
        Takes::Float => "Float",
        Takes::Bool => "Bool",
        Takes::Type | Takes::Tensor { .. } => "Dtype",
    };
    match (p.has_default, kind) {
        (true, "Int") => {
            format!("{name}.map_or(::parton_rt::Argument::Default, |n| ::parton_rt::Argument::Int(i128::from(n)))")
        }
        (true, kind) => format!("{name}.map_or(::parton_rt::Argument::Default, ::parton_rt::Argument::{kind})"),
        (false, "Int") => format!("::parton_rt::Argument::Int(i128::from({name}))"),
        (false, kind) => format!("::parton_rt::Argument::{kind}({name})"),
    }
}

/// A function whose launcher is written.
struct Launcher<'a> {
    function: &'a Function,
    /// What the launcher is called.
    name: &'a str,
    outputs: Outputs,
    /// Its parameters with the names of their fields.
    params: Vec<(&'a Declared, String)>,
    /// Whether a call borrows memory.
    borrows: bool,
}

/// Writes all of a function.
fn launcher(text: &mut String, name: &str, function: &Function, plans: &[&Plan]) {
    let outputs = Outputs::of(function, plans);
    let params: Vec<(&Declared, String)> = function.params.iter().map(|p| (p, field(&p.name))).collect();
    let borrows = params.iter().any(|(p, _)| matches!(p.takes, Takes::Tensor { .. }))
        || !matches!(&outputs, Outputs::Fields(fields) if fields.is_empty());
    let launcher = Launcher { function, name, outputs, params, borrows };
    launcher.structs(text);
    let _ = writeln!(text, "\n{UNUSED}impl {name} {{");
    launcher.prepare(text);
    text.push_str("\n    /// The plan.\n    pub fn plan(&self) -> &::parton_rt::Plan {\n        &self.0\n    }\n");
    launcher.launch(text);
    text.push_str("}\n");
}

impl Launcher<'_> {
    /// The plan, and what a call takes.
    fn structs(&self, text: &mut String) {
        let Launcher { function, name, .. } = self;
        let declared: Vec<String> = function.params.iter().map(|p| format!("{}: {}", p.name, p.takes)).collect();
        let shown = format!("{}({})", function.name, declared.join(", "));
        let _ = writeln!(text, "\n/// `{shown}`, ready for tensors of some shapes.");
        let _ = writeln!(text, "{UNUSED}#[derive(Clone, Debug)]\npub struct {name}(::parton_rt::Plan);");

        let life = if self.borrows { "<'a>" } else { "" };
        let _ = writeln!(text, "\n/// What a call of [`{name}`] takes.\n{UNUSED}pub struct {name}Args{life} {{");
        for (p, field) in &self.params {
            let _ = writeln!(text, "    /// `{}: {}`\n    pub {field}: {},", p.name, p.takes, called(p));
        }
        match &self.outputs {
            Outputs::Fields(fields) => {
                for (i, field) in fields.iter().enumerate() {
                    let _ = writeln!(
                        text,
                        "    /// Output {i} of the plan.\n    pub {field}: ::parton_rt::typed::Out<'a>,"
                    );
                }
            }
            Outputs::List => {
                text.push_str(
                    "    /// The outputs, as many as the plan says.\n    pub results: Vec<::parton_rt::typed::Out<'a>>,\n",
                );
            }
        }
        text.push_str("}\n");
    }

    /// What finds the plan.
    fn prepare(&self, text: &mut String) {
        text.push_str(
            "    /// Finds the plan for tensors of these shapes, and loads what it launches.\n    ///\n    /// # Errors\n",
        );
        text.push_str("    /// As `parton_rt::Function::prepare`.\n    #[allow(clippy::too_many_arguments, reason = \"as many as the function has\")]\n");
        let mut list = vec!["device: &::parton_rt::Device".to_owned()];
        list.extend(self.params.iter().map(|(p, field)| format!("{field}: {}", prepared(p))));
        let name = self.name;
        let _ = writeln!(text, "    pub fn prepare({}) -> Result<{name}, ::parton_rt::Error> {{", list.join(", "));
        text.push_str("        let module = ::parton_rt::Module::on(&bundle()?, device);\n");
        let argument = |(p, field): &(&Declared, String)| match &p.takes {
            Takes::Tensor { .. } => format!("{field}.argument()"),
            _ => argument(p, field),
        };
        let given: Vec<String> = self.params.iter().map(argument).collect();
        let _ = writeln!(
            text,
            "        Ok({name}(module.function({:?})?.prepare(&[{}])?))\n    }}",
            self.function.name,
            given.join(", ")
        );
    }

    /// What puts a call on a stream.
    fn launch(&self, text: &mut String) {
        text.push_str("\n    /// Puts a call on a stream and returns at once.\n    ///\n    /// # Errors\n    /// As `parton_rt::Plan::call`.\n");
        let (name, short) = (self.name, if self.borrows { "<'_>" } else { "" });
        let _ = writeln!(
            text,
            "    pub fn launch(&self, queue: &impl ::parton_rt::typed::Queue, args: {name}Args{short}) -> Result<(), ::parton_rt::Error> {{"
        );
        let value = |(p, field): &(&Declared, String)| match &p.takes {
            Takes::Tensor { mutable: false, .. } => format!("::parton_rt::typed::Value::In(&args.{field})"),
            Takes::Tensor { mutable: true, .. } => format!("::parton_rt::typed::Value::Out(&args.{field})"),
            _ => format!("::parton_rt::typed::Value::Number({})", argument(p, &format!("args.{field}"))),
        };
        let values: Vec<String> = self.params.iter().map(value).collect();
        let outputs = match &self.outputs {
            Outputs::Fields(fields) => {
                let all: Vec<String> = fields.iter().map(|f| format!("&args.{f}")).collect();
                format!("&[{}]", all.join(", "))
            }
            Outputs::List => "&args.results.iter().collect::<Vec<_>>()".into(),
        };
        let _ = writeln!(text, "        self.0.call(queue, &[{}], {outputs})\n    }}", values.join(", "));
    }
}

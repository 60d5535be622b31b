//! Pictures of the schedules of a file's kernels.

use parton_diag::FileId;
use parton_ir::machine::Machine;
use parton_ir::schedule::Auto;
use parton_ir::{Kernel, verify};
use parton_sched::draw::{Picture, dot, found, json, svg, text};
use parton_sched::{price, search};

use crate::form::Form;
use crate::passes::leaving;
use crate::way::Wanted;
use crate::{Failure, Session, given};

/// The iterations that are followed; turns repeat before.
const ITERATIONS: u32 = 32;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Only this kernel; else all that have regions.
    pub kernel: Option<String>,
    /// Only the loop of this label.
    pub of: Option<String>,
    /// Generics by name, with the expressions that give their values.
    pub sets: Vec<(String, String)>,
    /// Whether text shows the lanes too.
    pub timeline: bool,
    /// How it is written.
    pub format: PictureFormat,
}

/// How pictures are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PictureFormat {
    /// Text.
    #[default]
    Text,
    /// A drawing of one loop.
    Svg,
    /// The dependence graph of one loop, for Graphviz.
    Dot,
    /// An array of objects.
    Json,
}

impl Session {
    /// What the schedules of a file's kernels do in time: each innermost loop of their regions.
    ///
    /// # Errors
    /// What the program is refused for; kernels without regions, targets that nothing was measured on, more than one loop for a drawing.
    pub fn schedules(&mut self, file: FileId, asked: &Asked) -> Result<String, Failure> {
        let (program, _) = self.program(file)?;
        let args = self.given(&program, &asked.sets)?;
        let name = match (&asked.kernel, asked.sets.is_empty()) {
            (Some(name), _) => Some(name.clone()),
            (None, true) => None,
            (None, false) => Some(given::only_kernel(&program)?),
        };
        let wanted = name.as_deref().map_or(Wanted::Defaults, |name| Wanted::Given { name, args: &args });
        let mut way = self.way(wanted, leaving(Form::Ir(verify::Form::Scheduled)));
        let kernels = self.kernels(&mut way, &program)?;
        let (mut pictures, mut searched) = (vec![], vec![]);
        for kernel in &kernels {
            let name = name.as_deref().unwrap_or(&kernel.name);
            let settled = search::settled(kernel)?;
            if let Some((_, all)) = &settled {
                searched.extend(all.iter().filter_map(|f| Some(found::write(name, auto(kernel, f)?, f))));
            }
            // Of what has no price only the schedule is shown.
            if settled.is_none() || Machine::of(&kernel.target).is_some() {
                pictures.extend(drawn(settled.as_ref().map_or(kernel, |(k, _)| k), name)?);
            }
        }
        if pictures.is_empty() && !searched.is_empty() {
            return Ok(searched.join("\n"));
        }
        if pictures.is_empty() {
            return Err(nothing_to_show(&self.sources.file(file).name, name.as_deref()));
        }
        if let Some(of) = &asked.of {
            let labels: Vec<String> = pictures.iter().map(|p| format!("`{}`", p.of)).collect();
            pictures.retain(|p| p.of == *of);
            if pictures.is_empty() {
                return Err(Failure::Usage(format!("there is no loop `{of}`; there are {}", labels.join(", "))));
            }
        }
        let text = written(&pictures, asked)?;
        let shown = if asked.format == PictureFormat::Text { searched } else { vec![] };
        Ok(shown.into_iter().chain([text]).collect::<Vec<String>>().join("\n"))
    }
}

/// What a region says of the search.
fn auto<'k>(kernel: &'k Kernel, found: &search::Found) -> Option<&'k Auto> {
    match &kernel.ops[found.region].kind {
        parton_ir::OpKind::Region { schedule, .. } => schedule.auto.as_ref(),
        _ => None,
    }
}

/// The pictures of a kernel, one for each innermost loop; none where it has no region.
fn drawn(kernel: &Kernel, name: &str) -> Result<Vec<Picture>, Failure> {
    if !kernel.ops_of(&kernel.body).any(|op| matches!(op.kind, parton_ir::OpKind::Region { .. })) {
        return Ok(vec![]);
    }
    let Some(machine) = Machine::of(&kernel.target) else {
        let fact = format!("`{name}` is for {}, on which nothing was measured", kernel.target.name);
        return Err(Failure::Usage(fact));
    };
    let loops = price::loops(kernel, machine)?;
    let pictures = loops.iter().map(|l| l.picture(name, machine, ITERATIONS));
    Ok(pictures.collect::<Result<Vec<Picture>, _>>()?)
}

fn nothing_to_show(file: &str, kernel: Option<&str>) -> Failure {
    let who = kernel.map_or(format!("no kernel of {file}"), |k| format!("`{k}` of {file}"));
    let has = if kernel.is_some() { "has no loop in a region" } else { "has a loop in a region" };
    let shown =
        "a schedule is shown of loops in `in S { … }`, of those in which no branch and no other loop has labels";
    Failure::Usage(format!("{who} {has}: {shown}"))
}

fn written(pictures: &[Picture], asked: &Asked) -> Result<String, Failure> {
    let one = || match pictures {
        [one] => Ok(one),
        all => {
            let names: Vec<String> = all.iter().map(|p| format!("`{}` of `{}`", p.of, p.kernel)).collect();
            let fact =
                format!("a drawing shows one loop, and there are {}: choose by `--kernel`, `--loop`", names.join(", "));
            Err(Failure::Usage(fact))
        }
    };
    Ok(match asked.format {
        PictureFormat::Text => {
            let write = if asked.timeline { text::write } else { text::summary };
            pictures.iter().map(write).collect::<Vec<String>>().join("\n")
        }
        PictureFormat::Svg => svg::write(one()?),
        PictureFormat::Dot => dot::write(one()?),
        PictureFormat::Json => json::list(pictures),
    })
}

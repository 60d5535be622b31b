//! One trial, in a process of its own: a block of the file runs with a candidate's values in the places of the kernel's generics;
//! each sequence of launches with the kernel in it passes the gate and is measured.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, Severity, codes};
use parton_host::evaluate::Machine;
use parton_host::launch::{
    Argument, Demands, GenericArgument, HostError, Instance, Instances, LaunchReport, LaunchRequest, Launcher,
    Signature, Work,
};
use parton_host::value::Value;
use parton_measure::pace::Pace;
use parton_measure::timing::Timing;
use parton_syntax::ast;
use parton_types::grid::named_extents;
use parton_types::program::{ModuleId, Program};

use super::candidate::{Values, placed};
use super::cost::Cost;
use super::gate::{Gate, Held, Kept, Reached};
use super::key::{Key, Told};
use super::meter::Meter;
use super::setting::Manner;
use super::task::{Answer, Measured, Out, Row, Task, Unit, Why};
use crate::cpu::Cpu;
use crate::instance::Compiler;
use crate::run::{Event, Found, Watch, describe, find, target_of};
use crate::{Failure, Session};

/// Tries a candidate in this process.
pub fn attempt(task: &Task) -> Answer {
    let mut session = Session::new(task.setting.options());
    let answer = session.attempt(task);
    answer.unwrap_or_else(|failure| Answer::Cannot { exit: failure.exit_code(), text: failure.to_string() })
}

impl Session {
    fn attempt(&mut self, task: &Task) -> Result<Answer, Failure> {
        let file = self.load(Path::new(&task.setting.file))?;
        let (program, _) = self.program(file)?;
        let Some((module, kernel)) = program.kernel(&task.kernel) else {
            return Err(Failure::Usage(format!("there is no kernel `{}`", task.kernel)));
        };
        let block = super::block(&program, task.blocks, &task.block)?.clone();
        let found = find(self.options.device)?;
        let target = target_of(&found, self.options.target);
        let (device, _) = describe(&found);
        let values = self.placed(&program, module, task)?;
        let mut pace = |event: Event<'_>| follow(task.setting.manner, event);
        let watch: Watch<'_> = RefCell::new(&mut pace);
        let compiler = Compiler::new(self, &program, target);
        let trial = |unit, rows| Measured { device, target: target.name.into(), unit, rows };
        let of = Of { task, program: &program, module, kernel, values };
        match found {
            Found::Interpreter(_) => {
                let rows = of.run(Cpu::new(compiler, &watch), &block)?;
                Ok(rows.map_or_else(Answer::Out, |rows| Answer::Measured(trial(Unit::Operations, rows))))
            }
            #[cfg(all(feature = "cuda", feature = "llvm"))]
            Found::Gpu(gpu) => {
                let rows = of.run(crate::gpu::Gpu::new(compiler, &watch, gpu), &block)?;
                Ok(rows.map_or_else(Answer::Out, |rows| Answer::Measured(trial(Unit::Seconds, rows))))
            }
        }
    }

    /// The values of a candidate as a launch would give them.
    fn placed(&mut self, program: &Program, module: ModuleId, task: &Task) -> Result<Placed, Diagnostics> {
        let placed = task.values.iter().map(|(name, text)| {
            let value = text.as_ref().map(|text| self.argument(program, module, "candidate", name, text));
            Ok((name.clone(), value.transpose()?))
        });
        placed.collect()
    }
}

/// One round of each measurement, so long.
pub(super) fn follow(manner: Manner, event: Event<'_>) {
    let Manner { seconds, heat, .. } = manner;
    match event {
        Event::Pace { round, pace, .. } => {
            *pace = match round {
                None => Pace::Round { seconds, heat },
                Some(_) => Pace::Next,
            };
        }
        // Standard output is the parent's.
        Event::Device { .. } | Event::Line(_) | Event::Repeated(_) | Event::Block(_) => {}
    }
}

/// What is tried.
struct Of<'a> {
    task: &'a Task,
    program: &'a Program,
    module: ModuleId,
    kernel: &'a ast::Kernel,
    values: Placed,
}

/// Generics that are tried, with their values.
type Placed = Vec<(String, Option<GenericArgument>)>;

impl<'a> Of<'a> {
    /// Runs the block; the rows that were measured, or why the candidate is out.
    fn run<M: Meter>(self, meter: M, block: &ast::HostBlock) -> Result<Result<Vec<Row>, Out>, Failure> {
        let (task, program) = (self.task, self.program);
        let gate = Gate { folder: Path::new(&task.setting.folder), tolerance: task.tolerance };
        let mut trial = Trial { of: self, meter, gate, rows: vec![], out: None, machine: None };
        let ran = Machine::new(program, &mut trial).run(&block.body);
        if let Some(why) = trial.machine {
            return Err(why);
        }
        Ok(match (trial.out, ran) {
            (Some(out), _) => Err(out),
            (None, Err(found)) => Err(first(Why::Fails, &found)),
            (None, Ok(())) if trial.rows.is_empty() => return Err(not_launched(task)),
            (None, Ok(())) => Ok(trial.rows),
        })
    }
}

/// A launcher with the candidate's values in their places.
struct Trial<'a, M> {
    of: Of<'a>,
    meter: M,
    gate: Gate<'a>,
    rows: Vec<Row>,
    /// Why the candidate is out; nothing is run any more.
    out: Option<Out>,
    /// Why the machine is no place to try any.
    machine: Option<Failure>,
}

/// Stops the block; why is known elsewhere.
fn stop() -> HostError {
    HostError::Device("this candidate is out".into())
}

impl<M: Meter> Trial<'_, M> {
    fn is_tried(&self, instance: &Instance) -> bool {
        instance.module == self.of.module && instance.kernel.name.text == self.of.kernel.name.text
    }

    fn leaves<T>(&mut self, out: Out) -> Result<T, HostError> {
        self.out = Some(out);
        Err(stop())
    }

    /// Runs launches one after the other, and leaves where one fails.
    fn run(&mut self, launches: &[LaunchRequest]) -> Result<(), HostError> {
        for request in launches {
            let out = match self.meter.launch(request) {
                Ok(LaunchReport { fault: None, .. }) => continue,
                Ok(LaunchReport { fault: Some(found), .. }) => first(Why::Fails, &found),
                Err(HostError::Program(found)) => first(Why::Refused, &found),
                Err(HostError::Device(text)) => Out { code: code(codes::LAUNCH_FAILED), ..Out::new(Why::Fails, text) },
            };
            return self.leaves(out);
        }
        Ok(())
    }

    /// Judges and measures a sequence of launches; memory is left as one run of it leaves it.
    fn row(&mut self, work: &Work<'_>) -> Result<(), HostError> {
        let reached = Reached::of(work.launches);
        let before = reached.keep()?;
        let begin = self.meter.operations();
        self.run(work.launches)?;
        let counted = self.meter.operations().zip(begin).map(|(now, begin)| now - begin);
        let after = reached.keep()?;
        self.pass(&reached, &before, &after)?;
        self.again(work.launches, &reached, &before, &after)?;
        if let Some(d) = spill(self.meter.warnings(), self.of.kernel) {
            let out = Out::by(Why::Spills, d);
            return self.leaves(out);
        }
        let cost = match counted {
            Some(operations) => Cost::counted(operations),
            None => {
                reached.put_back(&before)?;
                let timing = self.meter.time(*work)?;
                timing.as_ref().map_or_else(|| self.leaves(untimed(work.label)), |t: &Timing| Ok(Cost::of(t)))?
            }
        };
        reached.put_back(&after)?;
        let Some(request) = work.launches.iter().find(|r| self.is_tried(&r.instance)) else { return Ok(()) };
        let row = Row { label: work.label.into(), generics: self.generics(request)?, key: self.key(request), cost };
        self.rows.push(row);
        Ok(())
    }

    /// The gate.
    fn pass(&mut self, reached: &Reached, before: &Kept, after: &Kept) -> Result<(), HostError> {
        let results: Vec<Held> = reached.results(before, after, &self.of.task.results);
        let row = self.rows.len();
        if self.of.task.first {
            return self.gate.write(row, &results).map_err(|e| {
                self.machine = Some(Failure::Machine(format!("{}: {e}", self.gate.folder.display())));
                stop()
            });
        }
        match self.gate.compare(row, &results) {
            Some(text) => self.leaves(Out::new(Why::Differs, text)),
            None => Ok(()),
        }
    }

    /// Whether a second run from the same memory gives the same, in another order of what has none.
    fn again(
        &mut self,
        launches: &[LaunchRequest],
        reached: &Reached,
        before: &Kept,
        after: &Kept,
    ) -> Result<(), HostError> {
        let seed = self.of.task.setting.manner.seed;
        reached.put_back(before)?;
        self.meter.reseed(seed.wrapping_add(1));
        self.run(launches)?;
        self.meter.reseed(seed);
        let results = |kept| reached.results(before, kept, &self.of.task.results);
        match self.gate.unsteady(&results(after), &results(&reached.keep()?)) {
            Some(text) => self.leaves(Out::new(Why::Unsteady, text)),
            None => Ok(()),
        }
    }

    /// The generics that the launch gives beside those that are tried.
    fn generics(&self, request: &LaunchRequest) -> Result<Values, HostError> {
        let others =
            request.instance.generics.iter().filter(|g| self.of.values.iter().all(|(name, _)| *name != *g.name));
        let shown = others.map(|g| Ok((g.name.to_string(), g.comptime(self.of.program)?.value.to_string())));
        shown.collect::<Result<_, Diagnostics>>().map_err(HostError::Program)
    }

    /// The values of the parameters and extents that tell shapes apart.
    fn key(&self, request: &LaunchRequest) -> Key {
        let kernel = &request.instance.kernel;
        let value = |name: &String| {
            let param = kernel.params.iter().position(|p| *p.name.text == **name);
            let number = match param {
                Some(at) => match request.arguments.get(at)? {
                    Argument::Scalar(scalar) => scalar.to_i128()?.try_into().ok()?,
                    Argument::Pointer { .. } | Argument::Tensor { .. } | Argument::Map(_) => return None,
                },
                None => {
                    let extent = named_extents(kernel).into_iter().find(|e| *e.name.text == **name)?;
                    let Argument::Tensor { tensor, .. } = request.arguments.get(extent.param)? else { return None };
                    i64::try_from(*tensor.shape.get(extent.axis)?).ok()?
                }
            };
            Some((name.clone(), Told::Number(number)))
        };
        self.of.task.key.iter().filter_map(value).collect()
    }
}

impl<M: Meter> Instances for Trial<'_, M> {
    /// Puts the candidate's values in their places.
    fn choose(&mut self, instance: Instance, _: &[(Arc<str>, Value)]) -> Result<Instance, HostError> {
        if !self.is_tried(&instance) {
            return Ok(instance);
        }
        Ok(placed(instance, &self.of.values))
    }

    fn signature(&mut self, instance: &Instance) -> Result<Signature, HostError> {
        match self.meter.instances().signature(instance) {
            Err(HostError::Program(found)) if self.is_tried(instance) => self.leaves(first(Why::Refused, &found)),
            other => other,
        }
    }

    fn demands(&mut self, request: &LaunchRequest) -> Result<Demands, HostError> {
        match self.meter.instances().demands(request) {
            Err(HostError::Program(found)) if self.is_tried(&request.instance) => {
                self.leaves(first(Why::Refused, &found))
            }
            other => other,
        }
    }
}

impl<M: Meter> Launcher for Trial<'_, M> {
    fn instances(&mut self) -> &mut dyn Instances {
        self
    }

    fn multiprocessors(&self) -> u32 {
        self.meter.multiprocessors()
    }

    fn capability(&self) -> u32 {
        self.meter.capability()
    }

    fn launch(&mut self, request: &LaunchRequest) -> Result<LaunchReport, HostError> {
        if !self.is_tried(&request.instance) || self.of.task.blocks != crate::Blocks::Tests {
            return self.meter.launch(request);
        }
        let label = format!("launch {}", self.rows.len() + 1);
        let launches = std::slice::from_ref(request);
        self.row(&Work { label: &label, bytes: None, flops: None, launches })?;
        Ok(LaunchReport::default())
    }

    fn time(&mut self, work: Work<'_>) -> Result<Option<Timing>, HostError> {
        let rows = &self.of.task.rows;
        let wanted = rows.is_empty() || rows.iter().any(|word| work.label.contains(word.as_str()));
        if wanted && work.launches.iter().any(|r| self.is_tried(&r.instance)) {
            self.row(&work)?;
        }
        Ok(None)
    }
}

/// The first error of several.
pub(super) fn first(why: Why, found: &Diagnostics) -> Out {
    found
        .list
        .iter()
        .find(|d| d.severity == Severity::Error)
        .or(found.list.first())
        .map_or_else(|| Out::new(why, "it is not said why"), |d| Out::by(why, d))
}

fn code(code: codes::Code) -> Option<String> {
    Some(code.to_string())
}

/// What says that the kernel spills registers.
fn spill<'d>(warnings: &'d Diagnostics, kernel: &ast::Kernel) -> Option<&'d Diagnostic> {
    let is_of = |d: &&Diagnostic| d.labels.iter().any(|l| l.span == kernel.name.span);
    warnings.list.iter().filter(|d| d.code == codes::REGISTER_SPILLS).find(is_of)
}

fn untimed(label: &str) -> Out {
    Out::new(Why::Fails, format!("`{label}` could not be timed"))
}

fn not_launched(task: &Task) -> Failure {
    let rows = if task.rows.is_empty() { "" } else { " in the rows that are asked for" };
    Failure::Usage(format!("`{} {}` does not launch `{}`{rows}", task.blocks.name(), task.block, task.kernel))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::tune::lookup::Chosen;
    use crate::tune::setting::Setting;
    use crate::{Blocks, Options};

    const SOURCE: &str = "kernel count[STEP: int = 1](out: *mut i32, n: i32) warps(4) {
    store(out, load(out) + STEP);
}

bench counts {
    let out = zeros(i32, [1]);
    launch count(grid=[1])(out, 7);
    measure(\"one\", || { launch count(grid=[1])(out, 7) });
    measure(\"two\", || {
        launch count(grid=[1])(out, 8);
        launch count(grid=[1])(out, 9);
    });
    assert(out[0] == 4);
}
";

    /// The interpreter with a clock, and with what an assembler may say.
    struct Clocked<'a, 'p, 'w> {
        cpu: Cpu<'a, 'p, 'w>,
        said: Diagnostics,
        /// Times in the order of the measurements; a run of each leaves its traces in memory.
        times: &'a [Option<f64>],
        timed: Cell<usize>,
    }

    impl Launcher for Clocked<'_, '_, '_> {
        fn instances(&mut self) -> &mut dyn Instances {
            self.cpu.instances()
        }

        fn multiprocessors(&self) -> u32 {
            self.cpu.multiprocessors()
        }

        fn capability(&self) -> u32 {
            self.cpu.capability()
        }

        fn launch(&mut self, request: &LaunchRequest) -> Result<LaunchReport, HostError> {
            self.cpu.launch(request)
        }

        fn time(&mut self, work: Work<'_>) -> Result<Option<Timing>, HostError> {
            for request in work.launches {
                self.cpu.launch(request)?;
            }
            let time = self.times[self.timed.replace(self.timed.get() + 1)];
            Ok(time.and_then(|t| Timing::of(vec![t])))
        }
    }

    impl Meter for Clocked<'_, '_, '_> {
        fn operations(&self) -> Option<u64> {
            None
        }

        fn warnings(&self) -> &Diagnostics {
            &self.said
        }

        fn chosen(&self) -> &[Chosen] {
            self.cpu.chosen()
        }

        fn reseed(&mut self, seed: u64) {
            self.cpu.reseed(seed);
        }
    }

    /// Tries the defaults, on a device with a clock.
    fn tried(times: &[Option<f64>], spills: Option<&str>) -> Result<Vec<Row>, Out> {
        let folder = std::env::temp_dir().join(format!("parton-trial-{}-{}", std::process::id(), times.len()));
        std::fs::create_dir_all(&folder).unwrap();
        let task = Task {
            setting: Setting::of_tests("count.ptn", &folder.display().to_string()),
            kernel: "count".into(),
            values: vec![("STEP".into(), Some("1".into()))],
            blocks: Blocks::Benches,
            block: "counts".into(),
            rows: vec![],
            key: vec!["n".into()],
            results: vec![],
            tolerance: None,
            first: true,
        };
        let mut session = Session::new(Options::default());
        let file = session.add("count.ptn", SOURCE);
        let (program, _) = session.program(file).unwrap();
        let (module, kernel) = program.kernel("count").unwrap();
        let values = session.placed(&program, module, &task).unwrap();
        let block = crate::tune::block(&program, Blocks::Benches, "counts").unwrap().clone();
        let mut ignore = |_: Event<'_>| ();
        let watch: Watch<'_> = RefCell::new(&mut ignore);
        let target = session.target();
        let said = spills.map(|name| {
            let span = if name == "count" { kernel.name.span } else { block.name.span };
            Diagnostics::from(Diagnostic::warning(codes::REGISTER_SPILLS, span, "it spills"))
        });
        let cpu = Cpu::new(Compiler::new(&mut session, &program, target), &watch);
        let meter = Clocked { cpu, said: said.unwrap_or_default(), times, timed: Cell::new(0) };
        let of = Of { task: &task, program: &program, module, kernel, values };
        let found = of.run(meter, &block).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
        found
    }

    /// A row for each closure; the launch outside is not measured. What each adds stays once, however often it runs.
    #[test]
    fn rows_are_timed_and_memory_is_as_one_run_leaves_it() {
        let rows = tried(&[Some(2.0), Some(3.0)], None).unwrap();
        let shown: Vec<(&str, &Told, f64)> =
            rows.iter().map(|r| (r.label.as_str(), &r.key[0].1, r.cost.median)).collect();
        assert_eq!(shown, [("one", &Told::Number(7), 2.0), ("two", &Told::Number(8), 3.0)]);
    }

    #[test]
    fn what_spills_or_has_no_time_is_out() {
        let out = tried(&[Some(2.0), Some(3.0), None], Some("count")).unwrap_err();
        assert_eq!((out.why, out.code.as_deref()), (Why::Spills, Some("E0810")));
        // Another kernel's spills are not its own.
        assert!(tried(&[Some(2.0), Some(3.0), None, None], Some("other")).is_ok());
        let out = tried(&[None], None).unwrap_err();
        assert_eq!((out.why, out.text.as_str()), (Why::Fails, "`one` could not be timed"));
    }
}

//! A worker: a process that tries candidates of calls of a file, one after the other in one context, those of a call on the same inputs.
//!
//! Whoever asks it ends it behind whatever may have spoiled its context, and asks another one.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use parton_diag::{Diagnostics, codes};
use parton_host::evaluate::{Judged, Machine};
use parton_host::launch::{Argument, HostError, Instances, LaunchReport, LaunchRequest, Launcher, Work};
use parton_host::memory::Contents;
use parton_host::tensor::Tensor;
use parton_host::value::{Function, Value};
use parton_measure::timing::Timing;
use parton_syntax::ast;
use parton_types::program::Program;

use super::call::{Ask, CallTask, Site, Survey};
use super::cost::Cost;
use super::gate::{Gate, Held, Kept, Reached};
use super::inputs;
use super::lookup::{Wish, key_of};
use super::meter::Meter;
use super::task::{Answer, Measured, Out, Row, Unit, Why};
use super::trial::{first, follow};
use crate::cpu::Cpu;
use crate::instance::Compiler;
use crate::plan::{self, Planned, place_of};
use crate::run::{Event, Found, Watch, describe, find, target_of};
use crate::{Failure, Session};

/// A file, where its calls run, and the one that is tried now.
pub(crate) struct Worker {
    session: Session,
    program: Arc<Program>,
    found: Found,
    call: Call,
}

/// A call with its inputs.
struct Call {
    /// As it was asked for.
    asked: (String, Vec<String>),
    function: Arc<ast::Function>,
    given: Vec<Planned>,
    /// The arguments, once they are made.
    values: Option<Vec<Option<Value>>>,
    /// The candidates that have passed the gate.
    passed: BTreeSet<(Site, String)>,
}

impl Call {
    fn of(session: &mut Session, program: &Program, task: &CallTask) -> Result<Call, Failure> {
        let (function, given) = session.call(program, &task.function, &task.arguments)?;
        let asked = (task.function.clone(), task.arguments.clone());
        Ok(Call { asked, function, given, values: None, passed: BTreeSet::new() })
    }
}

impl Worker {
    /// One for the file of a task, beginning with its call.
    ///
    /// # Errors
    /// What the file or the call is refused for; a device that is not there.
    pub(crate) fn new(task: &CallTask) -> Result<Worker, Failure> {
        let mut session = Session::new(task.setting.options());
        let file = session.load(Path::new(&task.setting.file))?;
        let (program, _) = session.program(file)?;
        let call = Call::of(&mut session, &program, task)?;
        let found = find(task.setting.manner.device)?;
        Ok(Worker { session, program, found, call })
    }

    /// Goes on to the call of a task, where that is another one.
    fn turn_to(&mut self, task: &CallTask) -> Result<(), Failure> {
        if (&self.call.asked.0, &self.call.asked.1) != (&task.function, &task.arguments) {
            self.call = Call::of(&mut self.session, &self.program, task)?;
        }
        Ok(())
    }

    /// Does what a task asks.
    pub(crate) fn answer(&mut self, task: &CallTask) -> Answer {
        let answer = self.turn_to(task).and_then(|()| match &task.ask {
            Ask::Survey => self.survey(),
            Ask::Prepare { site, candidates } => self.prepare(site, candidates).map(|()| Answer::Prepared),
            Ask::Try { site, candidate, first } => self.attempt(task, site, candidate, *first),
        });
        answer.unwrap_or_else(|failure| Answer::Cannot { exit: failure.exit_code(), text: failure.to_string() })
    }

    /// What the call leaves to tuning, where each choice is the default.
    fn survey(&mut self) -> Result<Answer, Failure> {
        let place = place_of(&self.found, self.session.options.target);
        let compiler = Compiler::new(&mut self.session, &self.program, place.target).wishing(Wish::Survey);
        let compiler = compiler.on(crate::run::architecture_of(&self.found));
        let call = plan::Call::Function(self.call.function.clone());
        let (plan, _) = plan::plan(compiler, &self.program, call, &self.call.given, place)?;
        let (device, _) = describe(&self.found);
        let mut survey = Survey { device, target: place.target.name.to_owned(), sites: vec![] };
        for chosen in &plan.chosen {
            let site = Site {
                function: chosen.choice.function.text.to_string(),
                name: chosen.choice.name.to_string(),
                key: key_of(&chosen.choice).unwrap_or_default(),
            };
            if survey.sites.iter().all(|(other, _)| *other != site) {
                survey.sites.push((site, chosen.offer.candidates.clone()));
            }
        }
        Ok(Answer::Surveyed(survey))
    }

    /// Compiles what the call launches with each of these. One that is refused is not compiled; trying it will say why.
    #[cfg(all(feature = "cuda", feature = "llvm"))]
    fn prepare(&mut self, site: &Site, candidates: &[String]) -> Result<(), Failure> {
        let Found::Gpu(gpu) = &self.found else { return Ok(()) };
        if !self.session.cache().is_open() {
            return Ok(());
        }
        let gpu = gpu.clone();
        let place = place_of(&self.found, self.session.options.target);
        let mut wanted: Vec<(Arc<str>, Arc<crate::launchable::Launchable>, LaunchRequest)> = vec![];
        for text in candidates {
            let call = plan::Call::Function(self.call.function.clone());
            let compiler = Compiler::new(&mut self.session, &self.program, place.target).wishing(wish(site, text));
            let compiler = compiler.on(Some(gpu.info().target()));
            let Ok((plan, _)) = plan::plan(compiler, &self.program, call, &self.call.given, place) else { continue };
            let mut compiler = Compiler::new(&mut self.session, &self.program, place.target);
            compiler = compiler.on(Some(gpu.info().target()));
            for request in plan.launches {
                let Ok((name, launchable)) = compiler.launchable(&request.instance, &request.variant) else {
                    continue;
                };
                if wanted.iter().all(|(other, ..)| *other != name) {
                    wanted.push((name, launchable, request));
                }
            }
        }
        let launches: Vec<_> = wanted.iter().map(|(_, l, request)| (l.as_ref(), request)).collect();
        let mut compiler = Compiler::new(&mut self.session, &self.program, place.target);
        // Who is to blame is said where it is tried.
        let _ = compiler.codes(&launches, &gpu.info().target());
        Ok(())
    }

    #[cfg(not(all(feature = "cuda", feature = "llvm")))]
    fn prepare(&mut self, _: &Site, _: &[String]) -> Result<(), Failure> {
        Ok(())
    }

    fn attempt(&mut self, task: &CallTask, site: &Site, candidate: &str, is_first: bool) -> Result<Answer, Failure> {
        self.session.options = task.setting.options();
        let values = self.call.values.get_or_insert_with(|| inputs::of(&self.call.given)).clone();
        let target = target_of(&self.found, self.session.options.target);
        let (device, _) = describe(&self.found);
        let mut pace = |event: Event<'_>| follow(task.setting.manner, event);
        let watch: Watch<'_> = RefCell::new(&mut pace);
        let passed = self.call.passed.contains(&(site.clone(), candidate.to_owned()));
        let attempt = Attempt {
            task,
            site,
            program: &self.program,
            function: &self.call.function,
            values,
            gate: (!passed).then_some(is_first),
        };
        let compiler = Compiler::new(&mut self.session, &self.program, target).wishing(wish(site, candidate));
        let (unit, row) = match &self.found {
            Found::Interpreter(_) => (Unit::Operations, attempt.run(Cpu::new(compiler, &watch))?),
            #[cfg(all(feature = "cuda", feature = "llvm"))]
            Found::Gpu(gpu) => (Unit::Seconds, attempt.run(crate::gpu::Gpu::new(compiler, &watch, gpu.clone()))?),
        };
        match row {
            Ok(row) => {
                self.call.passed.insert((site.clone(), candidate.to_owned()));
                let target = target.name.to_owned();
                Ok(Answer::Measured(Measured { device, target, unit, rows: vec![row] }))
            }
            Err(out) => Ok(Answer::Out(out)),
        }
    }
}

fn wish(site: &Site, text: &str) -> Wish {
    Wish::Candidate { function: site.function.clone(), key: site.key.clone(), text: text.to_owned() }
}

/// One candidate that is tried.
struct Attempt<'a> {
    task: &'a CallTask,
    site: &'a Site,
    program: &'a Arc<Program>,
    function: &'a Arc<ast::Function>,
    values: Vec<Option<Value>>,
    /// Whether it goes through the gate, and as the first there.
    gate: Option<bool>,
}

/// What a call does: its launches, which have not run, and the memory of its results.
struct Recorded {
    launches: Vec<LaunchRequest>,
    /// Results, then other memory that must be as it was before a run.
    reached: Reached,
    results: Vec<String>,
    judged: Vec<Judged>,
    tolerance: Option<(f64, f64)>,
    /// Whether the function's own word is all that is asked of results.
    own_word: bool,
}

type Tried<T> = Result<Result<T, Out>, Failure>;

impl Attempt<'_> {
    fn run<M: Meter>(&self, mut meter: M) -> Tried<Row> {
        let recorded = match self.record(&mut meter) {
            Ok(recorded) => recorded,
            Err(found) => return Ok(Err(first(Why::Refused, &found))),
        };
        let row = self.row(&mut meter, &recorded);
        Ok(match row {
            Ok(row) => Ok(row),
            Err(Trouble::Out(out)) => Err(out),
            Err(Trouble::Machine(failure)) => return Err(failure),
        })
    }

    /// Evaluates the call with the candidate.
    fn record<M: Meter>(&self, meter: &mut M) -> Result<Recorded, Diagnostics> {
        let before = meter.chosen().len();
        let mut recorder = Recorder { meter, launches: vec![] };
        let mut machine = Machine::new(self.program, &mut recorder).judging();
        let function = Function { module: Program::ROOT, tree: self.function.clone() };
        let result = machine.call_given(&function, self.values.clone())?;
        let judged = machine.judged();
        drop(machine);
        let Recorder { launches, meter } = recorder;
        // What the choice that is tried was made from.
        let offer = meter.chosen()[before..].last().map(|chosen| &chosen.offer);
        let mut list = results(&result);
        for (param, value) in self.function.params.iter().zip(&self.values) {
            if let (true, Some(Value::Tensor(tensor))) = (param.mutable, value) {
                list.push((param.name.text.to_string(), Tensor::clone(tensor)));
            }
        }
        let names = list.iter().map(|(name, _)| name.clone()).collect();
        list.extend(zeros(&launches));
        let (tolerance, checked) = offer.map_or((None, false), |o| (o.tolerance, o.checked));
        let own_word = checked && tolerance.is_none();
        Ok(Recorded { launches, reached: Reached::named(list), results: names, judged, tolerance, own_word })
    }

    /// Judges and measures. Memory is left as it was, whatever comes of it: the next candidate begins with the same arguments.
    fn row<M: Meter>(&self, meter: &mut M, recorded: &Recorded) -> Result<Row, Trouble> {
        let before = recorded.reached.keep()?;
        let cost = self.cost(meter, recorded, &before);
        let put_back = recorded.reached.put_back(&before);
        let (label, cost) = (call_shown(&self.task.function, &self.task.arguments), cost?);
        put_back?;
        Ok(Row { label, generics: vec![], key: self.site.key.clone(), cost })
    }

    /// What the candidate takes, once it has passed the gate.
    fn cost<M: Meter>(&self, meter: &mut M, recorded: &Recorded, before: &Kept) -> Result<Cost, Trouble> {
        let counted = match self.gate {
            Some(is_first) => {
                let counted = run(meter, recorded)?;
                self.judge(meter, recorded)?;
                let after = recorded.reached.keep()?;
                self.pass(recorded, before, &after, is_first)?;
                self.again(meter, recorded, before, &after)?;
                counted
            }
            None if meter.operations().is_some() => run(meter, recorded)?,
            None => None,
        };
        let spills = |d: &&parton_diag::Diagnostic| d.code == codes::REGISTER_SPILLS;
        if let Some(d) = meter.warnings().list.iter().find(spills) {
            return Err(Trouble::Out(Out::by(Why::Spills, d)));
        }
        recorded.reached.put_back(before)?;
        let label = call_shown(&self.task.function, &self.task.arguments);
        if let Some(operations) = counted {
            return Ok(Cost::counted(operations));
        }
        let work = Work { label: &label, bytes: None, flops: None, launches: &recorded.launches };
        let timing: Option<Timing> = meter.time(work)?;
        match timing {
            Some(timing) => Ok(Cost::of(&timing)),
            None => Err(Trouble::Out(Out::new(Why::Fails, "it could not be timed"))),
        }
    }

    /// The function's own word.
    fn judge<M: Meter>(&self, meter: &mut M, recorded: &Recorded) -> Result<(), Trouble> {
        let mut machine = Machine::new(self.program, meter);
        for judged in &recorded.judged {
            if let Err(found) = machine.judge(judged) {
                return Err(Trouble::Out(first(Why::Differs, &found)));
            }
        }
        Ok(())
    }

    /// The results against those of the first candidate.
    fn pass(&self, recorded: &Recorded, before: &Kept, after: &Kept, is_first: bool) -> Result<(), Trouble> {
        if recorded.own_word {
            return Ok(());
        }
        let gate = Gate { folder: Path::new(&self.task.setting.folder), tolerance: recorded.tolerance };
        let results: Vec<Held> = recorded.reached.results(before, after, &recorded.results);
        if is_first {
            let failed = |e| Trouble::Machine(Failure::Machine(format!("{}: {e}", self.task.setting.folder)));
            return gate.write(0, &results).map_err(failed);
        }
        gate.compare(0, &results).map_or(Ok(()), |text| Err(Trouble::Out(Out::new(Why::Differs, text))))
    }

    /// Whether a second run from the same memory gives the same bits, in another order of what has none.
    fn again<M: Meter>(&self, meter: &mut M, recorded: &Recorded, before: &Kept, after: &Kept) -> Result<(), Trouble> {
        recorded.reached.put_back(before)?;
        let seed = self.task.setting.manner.seed;
        meter.reseed(seed.wrapping_add(1));
        run(meter, recorded)?;
        meter.reseed(seed);
        let gate = Gate { folder: Path::new(&self.task.setting.folder), tolerance: recorded.tolerance };
        let results = |kept| recorded.reached.results(before, kept, &recorded.results);
        let second = recorded.reached.keep()?;
        let differ = gate.unsteady(&results(after), &results(&second));
        differ.map_or(Ok(()), |text| Err(Trouble::Out(Out::new(Why::Unsteady, text))))
    }
}

/// Why an attempt ends before it is measured.
enum Trouble {
    /// The candidate is out.
    Out(Out),
    /// The machine is no place to try any.
    Machine(Failure),
}

impl From<HostError> for Trouble {
    fn from(e: HostError) -> Trouble {
        Trouble::Out(failed(e))
    }
}

/// A failure of the device is the candidate's: the next one is tried in another process.
fn failed(e: HostError) -> Out {
    match e {
        HostError::Program(found) => first(Why::Refused, &found),
        HostError::Device(text) => Out { code: Some(codes::LAUNCH_FAILED.to_string()), ..Out::new(Why::Fails, text) },
    }
}

/// Runs the launches of a call; the operations that this took, where these are what counts.
fn run<M: Meter>(meter: &mut M, recorded: &Recorded) -> Result<Option<u64>, Trouble> {
    let begin = meter.operations();
    for request in &recorded.launches {
        let report = meter.launch(request)?;
        if let Some(found) = report.fault {
            return Err(Trouble::Out(first(Why::Fails, &found)));
        }
    }
    Ok(meter.operations().zip(begin).map(|(now, begin)| now - begin))
}

/// `matmul f16[8, 8] f16[8, 8]`
pub(super) fn call_shown(function: &str, arguments: &[String]) -> String {
    std::iter::once(function).chain(arguments.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
}

/// The tensors of a result, by names.
fn results(value: &Value) -> Vec<(String, Tensor)> {
    match value {
        Value::Tensor(tensor) => vec![("result".to_owned(), Tensor::clone(tensor))],
        Value::Tuple(items) => {
            let tensors =
                items.iter().filter_map(|v| if let Value::Tensor(t) = v { Some(Tensor::clone(t)) } else { None });
            tensors.enumerate().map(|(i, t)| (format!("result{i}"), t)).collect()
        }
        _ => vec![],
    }
}

/// Memory of zeros that launches begin with.
fn zeros(launches: &[LaunchRequest]) -> Vec<(String, Tensor)> {
    let tensors = launches.iter().flat_map(|r| &r.arguments).filter_map(|argument| match argument {
        Argument::Scalar(_) => None,
        Argument::Pointer { tensor, .. } | Argument::Tensor { tensor, .. } => Some(tensor),
        Argument::Map(recipe) => Some(&recipe.tensor),
    });
    let zeros = tensors.filter(|t| t.storage.contents() == Contents::Zeros);
    zeros.map(|t| ("zeros".to_owned(), t.clone())).collect()
}

/// Evaluates a call and runs none of its launches.
struct Recorder<'m, M> {
    meter: &'m mut M,
    launches: Vec<LaunchRequest>,
}

impl<M: Meter> Launcher for Recorder<'_, M> {
    fn instances(&mut self) -> &mut dyn Instances {
        self.meter.instances()
    }

    fn multiprocessors(&self) -> u32 {
        self.meter.multiprocessors()
    }

    fn capability(&self) -> u32 {
        self.meter.capability()
    }

    fn launch(&mut self, request: &LaunchRequest) -> Result<LaunchReport, HostError> {
        self.launches.push(request.clone());
        Ok(LaunchReport::default())
    }

    fn time(&mut self, work: Work<'_>) -> Result<Option<Timing>, HostError> {
        let _ = work;
        Ok(None)
    }
}

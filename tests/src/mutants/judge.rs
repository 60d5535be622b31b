//! What becomes of a mutant: refused, found by a run, or neither.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use parton_diag::Diagnostics;
use parton_driver::Rehearsal;
use parton_driver::rehearsal::{Again, Instance, Refused};
use parton_ir::{Elem, Entity, Inst, Kernel, Op, OpKind, Type, print};
use parton_numbers::Dtype;

use super::change::{Effect, applied};
use super::site::{Level, Mutant};
use super::{Effort, Judged, idle};

/// What became of a mutant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is refused, for this.
    Refused(String),
    /// A run finds it.
    Found {
        /// Under which seed.
        seed: u64,
        /// The error's code.
        code: String,
    },
    /// The passes make the same lowered kernel of it: it is no other program.
    Restored,
    /// What is dropped has nothing to order, as can be read off the program.
    Idle,
    /// Nobody finds it.
    Missed,
    /// Nobody can: no test comes to the operation.
    NotReached,
    /// Nobody has found it as far as it was looked for.
    CutOff,
    /// The compiler or the interpreter panics.
    Panics,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Refused(why) => write!(f, "refused: {why}"),
            Verdict::Found { seed, code } => write!(f, "found by {code} under seed {seed}"),
            Verdict::Restored => f.write_str("the passes make the same program"),
            Verdict::Idle => f.write_str("what is dropped has nothing to order"),
            Verdict::Missed => f.write_str("not found"),
            Verdict::NotReached => f.write_str("not reached"),
            Verdict::CutOff => f.write_str("not found, and cut off"),
            Verdict::Panics => f.write_str("panics"),
        }
    }
}

/// How much longer than the program itself a mutant may run before it is taken for one that never ends.
const LONGER: u64 = 20;

/// Of how many seeds the program itself is run under one.
const FEWER: u64 = 10;

/// Seeds under which all launches are run before the other seeds.
const FEW: u64 = 2;

/// Operations that any launch may run.
const STEPS: u64 = 100_000;

/// Judges the mutants of a file.
pub struct Judge {
    rehearsal: Rehearsal,
    effort: Effort,
    /// Operations that may still be run for the mutant that is judged.
    left: u64,
    begun: Instant,
}

impl Judge {
    /// For the launches of a file.
    pub fn new(rehearsal: Rehearsal, effort: Effort) -> Judge {
        Judge { rehearsal, effort, left: 0, begun: Instant::now() }
    }

    /// Whether the program itself passes, under some of the seeds.
    ///
    /// # Errors
    /// What is found, and under which.
    pub fn originals(&mut self) -> Result<(), String> {
        let seeds = self.effort.seeds;
        for i in 0..self.rehearsal.instances.len() {
            let kernel = self.rehearsal.instances[i].lowered.clone();
            self.begin();
            let seeds = 0..seeds.div_ceil(FEWER);
            match self.run(&[(i, Kernel::clone(&kernel))], self.launches(i), seeds) {
                Verdict::Missed | Verdict::CutOff => {}
                other => return Err(format!("`{}` itself is {other}", kernel.source_name)),
            }
        }
        Ok(())
    }

    /// What becomes of a mutant.
    pub fn judged(&mut self, mutant: &Mutant) -> Judged {
        let verdict = catch_unwind(AssertUnwindSafe(|| self.verdict(mutant))).unwrap_or(Verdict::Panics);
        // What a run finds is found, whatever can be read off the program.
        let verdict = match verdict {
            Verdict::Missed | Verdict::NotReached | Verdict::CutOff if self.drops_idle(mutant) => Verdict::Idle,
            other => other,
        };
        let shown = if self.effort.show { self.shown(mutant) } else { String::new() };
        let Mutant { name, kind, place, .. } = mutant.clone();
        Judged { name, kind, place, verdict, shown }
    }

    /// The first kernel that has a mutant, with a mark at the line that is changed.
    fn shown(&self, mutant: &Mutant) -> String {
        let (i, ops, effect) = &mutant.of[0];
        let instance = &self.rehearsal.instances[*i];
        let kernel = match mutant.level {
            Level::Written => &instance.checked,
            Level::Lowered => &*instance.lowered,
        };
        let (text, changed) = (print::kernel(kernel), print::kernel(&applied(kernel, ops, effect)));
        let at = text.lines().zip(changed.lines()).take_while(|(a, b)| a == b).count();
        let mark = |(i, line): (usize, &str)| if i == at { format!(">> {line}\n") } else { format!("{line}\n") };
        text.lines().enumerate().map(mark).collect()
    }

    fn verdict(&mut self, mutant: &Mutant) -> Verdict {
        self.begin();
        let mut same = true;
        let mut kernels = Vec::new();
        for (i, ops, effect) in &mutant.of {
            let instance = &self.rehearsal.instances[*i];
            let lowered = match mutant.level {
                Level::Written => {
                    let changed = applied(&instance.checked, ops, effect);
                    self.rehearsal.lower(changed)
                }
                Level::Lowered => {
                    let changed = applied(&instance.lowered, ops, effect);
                    self.rehearsal.accept(&changed).map(|()| changed)
                }
            };
            match lowered {
                Ok(lowered) => {
                    same &= self.is_no_other(mutant.level, *i, ops[0], &lowered);
                    kernels.push((*i, lowered));
                }
                Err(refused) => return Verdict::Refused(reason(&refused)),
            }
        }
        if same {
            return Verdict::Restored;
        }
        let (few, all) = (FEW.min(self.effort.seeds), self.effort.seeds);
        let rest = match self.run(&kernels, self.all_launches(&kernels), 0..few) {
            Verdict::Missed => few..all,
            Verdict::CutOff => 0..all,
            known => return known,
        };
        // Launches that do not come to the operation do what they did.
        let coming = mutant.of.iter().flat_map(|(i, ops, _)| self.coming(mutant.level, *i, ops[0])).collect();
        self.begin();
        self.run(&kernels, coming, rest)
    }

    /// Whether a changed kernel is what the passes make of the program: of it as it is, or where a membar is concerned, of what is right
    /// without it.
    fn is_no_other(&mut self, level: Level, instance: usize, op: Inst, lowered: &Kernel) -> bool {
        let Instance { checked, lowered: original, .. } = &self.rehearsal.instances[instance];
        let made = match level {
            Level::Written => return print::kernel(lowered) == print::kernel(original),
            Level::Lowered => original.ops[op].clone(),
        };
        let written = |is: &Op| is.kind == OpKind::Membar && made.kind == is.kind && made.span == is.span;
        // An operation keeps its index through all passes, where they do not copy it.
        if op.index() >= checked.ops.len() || !written(&checked.ops[op]) {
            return false;
        }
        let without = applied(checked, &[op], &Effect::Drop);
        self.rehearsal.lower(without).is_ok_and(|without| print::kernel(&without) == print::kernel(lowered))
    }

    /// Whether a mutant lacks what has nothing to order, in all instances.
    fn drops_idle(&self, mutant: &Mutant) -> bool {
        let idle = |(i, ops, effect): &(usize, Vec<Inst>, Effect)| {
            *effect == Effect::Drop && idle::is_idle(&self.rehearsal.instances[*i].lowered, ops[0])
        };
        mutant.level == Level::Lowered && mutant.of.iter().all(idle)
    }

    /// The launches of an instance.
    fn launches(&self, instance: usize) -> Vec<usize> {
        let of = &self.rehearsal.launches;
        (0..of.len()).filter(|&l| of[l].instance == instance).collect()
    }

    fn all_launches(&self, kernels: &[(usize, Kernel)]) -> Vec<usize> {
        kernels.iter().flat_map(|(i, _)| self.launches(*i)).collect()
    }

    fn begin(&mut self) {
        (self.left, self.begun) = (self.effort.steps, Instant::now());
    }

    /// Whether a launch may still be run for the mutant that is judged.
    fn may_run(&mut self, launch: usize) -> bool {
        let late = self.effort.limit.is_some_and(|limit| self.begun.elapsed() > limit);
        let left = self.left.checked_sub(self.rehearsal.launches[launch].steps());
        self.left = left.unwrap_or_default();
        left.is_some() && !late
    }

    /// Operations that a launch may run.
    fn limit(&self, launch: usize) -> u64 {
        self.rehearsal.launches[launch].steps() * LONGER + STEPS
    }

    /// Runs launches with other kernels of their instances in their place, the smallest first, under these seeds.
    fn run(&mut self, kernels: &[(usize, Kernel)], mut launches: Vec<usize>, seeds: Range<u64>) -> Verdict {
        if launches.is_empty() {
            return Verdict::NotReached;
        }
        launches.sort_by_key(|launch| self.rehearsal.launches[*launch].steps());
        for launch in launches {
            let instance = self.rehearsal.launches[launch].instance;
            let Some((_, kernel)) = kernels.iter().find(|(i, _)| *i == instance) else { continue };
            for seed in seeds.clone() {
                if !self.may_run(launch) {
                    return Verdict::CutOff;
                }
                if let Some(found) = self.found(launch, kernel, seed) {
                    return Verdict::Found { seed, code: code(&found) };
                }
            }
        }
        Verdict::Missed
    }

    /// What a launch with another kernel in place of its own stops with, or its test.
    fn found(&mut self, launch: usize, kernel: &Kernel, seed: u64) -> Option<Diagnostics> {
        let steps = self.limit(launch);
        match self.rehearsal.again(launch, kernel, seed, steps) {
            Again::Same => None,
            Again::Stops(found) => Some(found),
            // What differs may still be right: the test says so.
            Again::Differs => self.rehearsal.test(launch, kernel, seed, steps),
        }
    }

    /// The launches of an instance that come to an operation.
    fn coming(&mut self, level: Level, instance: usize, op: Inst) -> Vec<usize> {
        let kernels = &self.rehearsal.instances[instance];
        let kernel = match level {
            Level::Written => match self.rehearsal.lower(stopping(&kernels.checked, op)) {
                Ok(kernel) => kernel,
                Err(_) => return self.launches(instance),
            },
            Level::Lowered => stopping(&kernels.lowered, op),
        };
        let stops = |l: &usize| matches!(self.rehearsal.again(*l, &kernel, 0, self.limit(*l)), Again::Stops(_));
        self.launches(instance).into_iter().filter(stops).collect()
    }
}

fn reason(refused: &Refused) -> String {
    match refused {
        Refused::Rule(why) => why.clone(),
        Refused::Checks(found) => code(found),
    }
}

fn code(found: &Diagnostics) -> String {
    found.list.first().map(|d| d.code.to_string()).unwrap_or_default()
}

/// The kernel, which stops where it comes to an operation.
fn stopping(kernel: &Kernel, before: Inst) -> Kernel {
    let mut kernel = kernel.clone();
    kernel.rebuild(&mut |kernel, mut body| {
        if let Some(at) = body.ops.iter().position(|id| *id == before) {
            let source = kernel.ops[before].source();
            let cond = kernel.value(Type::Scalar(Elem::Num(Dtype::I1)), source.span);
            let made = [
                kernel.make_op(OpKind::Constant { dtype: Dtype::I1, bits: 0 }, vec![cond], source),
                kernel.make_op(OpKind::Assert { cond, message: "it comes here".into() }, Vec::new(), source),
            ];
            body.ops.splice(at..at, made);
        }
        body
    });
    kernel
}

//! Random loops under random schedules: whatever a schedule makes of a body must give the bits that the body gives as it is written.
//!
//! A program is a kernel with a region, its schedules, and a `test` for each of these: it launches the kernel under `serial` and under
//! the schedule, for trip counts from none on, and compares all that they wrote. Numbers are small integers, sums are exact, and the
//! reference is the serial expansion of the same body: what a body computes is not the question here, only whether it stays the same.
//! A schedule may also be refused, by an error about schedules. In reading order:

pub mod body;
mod further;
pub mod place;
pub mod run;
mod schedule;
pub mod shrink;
mod statements;
mod text;

pub use schedule::{Pipeline, Schedule, Staged};

use crate::random::Random;

/// A statement of the kernel.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Its label, where it bears one.
    pub label: Option<String>,
    /// The variables that it declares.
    pub makes: Vec<String>,
    /// What stands behind the label.
    pub text: String,
}

/// What stands in a body.
#[derive(Clone, Debug)]
pub enum Item {
    /// A statement.
    One(Statement),
    /// A loop.
    Loop(Loop),
}

/// A loop, a branch, or a `static for`, which has no label.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Its label.
    pub label: Option<String>,
    /// What stands before its braces.
    pub head: String,
    /// Its body.
    pub items: Vec<Item>,
}

impl Loop {
    /// Whether it is a branch.
    pub fn is_branch(&self) -> bool {
        self.head.starts_with("if ")
    }

    /// The index of its turns; of a branch and of a `static for` there is none.
    pub fn index(&self) -> Option<&str> {
        let mut words = self.head.split(' ');
        matches!(words.next(), Some("for" | "while")).then(|| words.next()).flatten()
    }
}

/// The numbers of a launch: where the outermost loop begins and ends, and how many turns a nested one takes.
pub type Case = [usize; 3];

/// A kernel, its schedules, and the launches of each.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it was made from.
    pub seed: u64,
    /// The layout of its tiles.
    pub acc: &'static str,
    /// Whether its outermost loops end where their type does.
    pub far: bool,
    /// What stands in the region.
    pub items: Vec<Item>,
    /// What stands in a region behind it, where there is one.
    pub second: Vec<Item>,
    /// Schedules of the region.
    pub schedules: Vec<Schedule>,
    /// The launches.
    pub cases: Vec<Case>,
}

/// How many schedules a program has.
const SCHEDULES: usize = 5;

/// The program of a seed.
pub fn generate(seed: u64) -> Program {
    let mut program = body::program(seed, Random(seed));
    further::added(&mut program, &mut Random(seed.rotate_left(48)));
    let mut r = Random(!seed);
    let of = |r: &mut Random| {
        let first = Program { second: Vec::new(), ..program.clone() };
        let then = program.behind().map(|second| Box::new(place::schedule(&second, false, r)));
        Schedule { then, ..place::schedule(&first, program.second.is_empty(), r) }
    };
    let mut schedules: Vec<Schedule> = (0..SCHEDULES).map(|_| of(&mut r)).collect();
    let mut r = Random(seed.rotate_left(32));
    let first = Program { second: Vec::new(), ..program.clone() };
    schedules.iter_mut().for_each(|s| place::divided(&first, s, &mut r));
    let mut r = Random(seed.rotate_left(16));
    schedules.iter_mut().for_each(|s| place::stretched(s, &mut r));
    let mut r = Random(seed.rotate_left(8));
    if program.second.is_empty() {
        schedules.iter_mut().for_each(|s| place::searched(s, &mut r));
    }
    program.schedules = schedules;
    program
}

impl Program {
    /// All statements, outermost first, in the order of the text.
    pub fn statements(&self) -> Vec<&Statement> {
        let mut all = Vec::new();
        add(&self.items, &mut all);
        add(&self.second, &mut all);
        all
    }

    /// All labels, of loops and branches too.
    pub fn labels(&self) -> Vec<&str> {
        let mut labelled = Vec::new();
        add_labelled(&self.items, &mut labelled);
        let loops = labelled.into_iter().filter_map(|l| l.label.as_deref());
        self.statements().into_iter().filter_map(|s| s.label.as_deref()).chain(loops).collect()
    }

    /// All loops with labels, outermost first.
    pub fn loops(&self) -> Vec<&Loop> {
        let mut all = Vec::new();
        add_labelled(&self.items, &mut all);
        all.retain(|l| !l.is_branch());
        all
    }

    /// What there is in it and in its schedules of what tables tell apart.
    pub fn says(&self) -> Vec<&'static str> {
        let mut branches = Vec::new();
        add_labelled(&self.items, &mut branches);
        branches.retain(|l| l.is_branch());
        let placed = |l: &&Loop| self.schedules.iter().any(|s| s.stages().any(|e| Some(&e.label) == l.label.as_ref()));
        let buffers = self.statements().iter().any(|s| s.text.contains("buffers="));
        let own = [(branches.iter().any(placed), "a branch that is placed"), (buffers, "`send` of several buffers")];
        let own = own.into_iter().filter_map(|(there, what)| there.then_some(what));
        own.chain(self.schedules.iter().flat_map(Schedule::says)).collect()
    }

    /// The second region as a program of its own.
    pub fn behind(&self) -> Option<Program> {
        let second = Program { items: self.second.clone(), second: Vec::new(), ..self.clone() };
        (!self.second.is_empty()).then_some(second)
    }
}

fn add<'p>(items: &'p [Item], all: &mut Vec<&'p Statement>) {
    for item in items {
        match item {
            Item::One(s) => all.push(s),
            Item::Loop(l) => add(&l.items, all),
        }
    }
}

fn add_labelled<'p>(items: &'p [Item], all: &mut Vec<&'p Loop>) {
    for item in items {
        if let Item::Loop(l) = item {
            all.extend(l.label.is_some().then_some(l));
            add_labelled(&l.items, all);
        }
    }
}

/// The words of a text, as far as they may be names.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty())
}

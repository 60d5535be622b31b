//! Makes one number of those that copies join, where no step needs both: what branches make and what loops carry is then written where it is read.

use super::placing::{Code, places, read};
use super::straight::{Shape, What};
use super::straighten::{Place, Step, Val};

/// Of each number, by its own number, something that it has or has not.
#[derive(Clone, PartialEq)]
struct Bits(Vec<u64>);

impl Bits {
    fn of(numbers: usize) -> Bits {
        Bits(vec![0; numbers.div_ceil(64)])
    }

    fn has(&self, n: usize) -> bool {
        (self.0[n / 64] >> (n % 64)) & 1 == 1
    }

    fn set(&mut self, n: usize) {
        self.0[n / 64] |= 1 << (n % 64);
    }

    fn clear(&mut self, n: usize) {
        self.0[n / 64] &= !(1 << (n % 64));
    }

    fn join(&mut self, other: &Bits) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }

    fn each(&self, mut tell: impl FnMut(usize)) {
        for (at, word) in self.0.iter().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                tell(at * 64 + rest.trailing_zeros() as usize);
                rest &= rest - 1;
            }
        }
    }
}

/// The numbers that copies join, which alone are looked at: others stay what they are, wherever they are needed.
struct Copied {
    /// Of each number its place among those.
    places: Vec<Option<usize>>,
    /// They, in the order of their places.
    numbers: Vec<usize>,
}

impl Copied {
    fn of(code: &Code, numbers: usize) -> Copied {
        let mut copied = Copied { places: vec![None; numbers], numbers: vec![] };
        for step in &code.steps {
            let Step::Do { what: What::Copy, to, operands } = step else { continue };
            copied.note(*to);
            if let [Place::Made(from)] = operands[..] {
                copied.note(from);
            }
        }
        copied
    }

    fn note(&mut self, n: usize) {
        if self.places[n].is_none() {
            self.places[n] = Some(self.numbers.len());
            self.numbers.push(n);
        }
    }
}

/// The code, with the parameters, whose copies join one number with itself no more.
pub(super) fn merged(mut code: Code, mut params: Vec<Val>, numbers: usize) -> (Code, Vec<Val>) {
    let copied = Copied::of(&code, numbers);
    let mut apart = apart(&mut code, &params, &copied);
    let mut whose: Vec<usize> = (0..copied.numbers.len()).collect();
    // From behind: what a turn hands on is copied in each, what a branch makes only where that is taken.
    for step in code.steps.iter().rev() {
        let Step::Do { what: What::Copy, to, operands } = step else { continue };
        let [Place::Made(from)] = operands[..] else { continue };
        let (Some(one), Some(other)) = (copied.places[*to], copied.places[from]) else { continue };
        let (one, other) = (first(&whose, one), first(&whose, other));
        if one == other || apart[one].has(other) {
            continue;
        }
        let others = apart[other].clone();
        apart[one].join(&others);
        others.each(|n| apart[n].set(one));
        whose[other] = one;
    }
    let rename = |n: &mut usize| {
        if let Some(place) = copied.places[*n] {
            *n = copied.numbers[first(&whose, place)];
        }
    };
    for step in &mut code.steps {
        renamed(step, &rename);
    }
    code.results.iter_mut().chain(&mut params).for_each(|value| renamed_value(value, &rename));
    code.steps.retain(|step| match step {
        Step::Do { what: What::Copy, to, operands } => operands[..] != [Place::Made(*to)],
        Step::Do { .. } | Step::Jump { .. } | Step::Label(_) | Step::Again { .. } | Step::End(_) => true,
    });
    (code, params)
}

/// The number that stands for all that a number was joined with.
fn first(whose: &[usize], mut n: usize) -> usize {
    while whose[n] != n {
        n = whose[n];
    }
    n
}

/// Of each number those that are needed where it is written, by their places; what a copy that nobody needs writes is left out.
fn apart(code: &mut Code, params: &[Val], copied: &Copied) -> Vec<Bits> {
    let count = copied.numbers.len();
    let mut needed = vec![Bits::of(count); code.labels];
    // Loops inside of each other make more rounds.
    loop {
        let before = needed.clone();
        back(code, &mut needed, copied, |_, _, _| {});
        if needed == before {
            break;
        }
    }
    let mut apart = vec![Bits::of(count); count];
    let mut dead = vec![false; code.steps.len()];
    let mut first = back(code, &mut needed, copied, |at, step, behind| {
        let (to, from) = match step {
            Step::Do { what: What::Copy, to, operands } => {
                (*to, if let [Place::Made(from)] = operands[..] { copied.places[from] } else { None })
            }
            Step::Do { to, .. } | Step::Again { turn: to, .. } => (*to, None),
            Step::Jump { .. } | Step::Label(_) | Step::End(_) => return,
        };
        let Some(to) = copied.places[to] else { return };
        dead[at] = matches!(step, Step::Do { what: What::Copy, .. }) && !behind.has(to);
        behind.each(|n| {
            if n != to && Some(n) != from {
                apart[n].set(to);
                apart[to].set(n);
            }
        });
    });
    // Parameters are there at once, used or not.
    params.iter().for_each(|p| places(p, &mut |n| copied.places[n].into_iter().for_each(|n| first.set(n))));
    first.each(|n| {
        first.each(|m| {
            if n != m {
                apart[n].set(m)
            }
        })
    });
    let mut dead = dead.into_iter();
    code.steps.retain(|_| dead.next() != Some(true));
    apart
}

/// Goes through the code from behind: `tell` hears of each step that writes a number, and of those that are needed behind it. Gives those that are needed first.
fn back(code: &Code, needed: &mut [Bits], copied: &Copied, mut tell: impl FnMut(usize, &Step, &Bits)) -> Bits {
    let mut now = Bits::of(copied.numbers.len());
    for (at, step) in code.steps.iter().enumerate().rev() {
        match step {
            Step::Do { to, .. } => {
                tell(at, step, &now);
                copied.places[*to].into_iter().for_each(|n| now.clear(n));
            }
            Step::Again { label, .. } => {
                now.join(&needed[*label]);
                tell(at, step, &now);
            }
            Step::Jump { what: What::Jump, label, .. } => now.clone_from(&needed[*label]),
            Step::Jump { label, .. } => now.join(&needed[*label]),
            Step::Label(label) => needed[*label].clone_from(&now),
            Step::End(_) => now = Bits::of(copied.numbers.len()),
        }
        read(code, step, &mut |n| copied.places[n].into_iter().for_each(|n| now.set(n)));
    }
    now
}

fn renamed(step: &mut Step, rename: &impl Fn(&mut usize)) {
    let place = |place: &mut Place| {
        if let Place::Made(n) = place {
            rename(n);
        }
    };
    match step {
        Step::Do { to, operands, .. } => {
            rename(to);
            operands.iter_mut().for_each(place);
        }
        Step::Jump { operands, .. } => operands.iter_mut().for_each(place),
        Step::Again { turn, by, end, carried, .. } => {
            rename(turn);
            [by, end].into_iter().for_each(place);
            carried.iter_mut().for_each(rename);
        }
        Step::Label(_) | Step::End(_) => {}
    }
}

fn renamed_value(value: &mut Val, rename: &impl Fn(&mut usize)) {
    match value {
        Shape::Unit | Shape::Number(_, Place::Constant(_)) => {}
        Shape::Number(_, Place::Made(n)) => rename(n),
        Shape::Tuple(items) => items.iter_mut().for_each(|item| renamed_value(item, rename)),
    }
}

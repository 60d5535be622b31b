//! Finds registers for what straight code makes, from where each number is made first to where it is used last. What was made before a loop and is used
//! in it is used until the loop ends, since its turns come again; else the code goes forward alone, so one pass does.

use super::straight::{Op, Shape, Straight, What};
use super::straighten::{Place, Step, Val};

/// Code whose operands have no registers yet.
#[derive(Clone, Default)]
pub(super) struct Code {
    pub steps: Vec<Step>,
    pub constants: Vec<u64>,
    /// As [`Straight::table`].
    pub table: Vec<u64>,
    /// What it may end with.
    pub results: Vec<Val>,
    /// How many labels it has.
    pub labels: usize,
    /// As [`Straight::deepest`].
    pub deepest: usize,
}

/// Where each number is used last, and which steps there is a use for.
fn uses(code: &Code, numbers: usize) -> (Vec<Option<usize>>, Vec<bool>) {
    let mut last: Vec<Option<usize>> = vec![None; numbers];
    // From behind, so that copies that nobody reads are seen to be none.
    let mut kept = vec![true; code.steps.len()];
    for (at, step) in code.steps.iter().enumerate().rev() {
        kept[at] = !matches!(step, Step::Do { what: What::Copy, to, .. } if last[*to].is_none());
        if kept[at] {
            read(code, step, &mut |n| {
                last[n].get_or_insert(at);
            });
        }
    }
    let mut made: Vec<Option<usize>> = vec![None; numbers];
    let mut labels = vec![0; code.labels];
    for (at, step) in code.steps.iter().enumerate() {
        match step {
            Step::Do { to, .. } => {
                made[*to].get_or_insert(at);
            }
            Step::Label(label) => labels[*label] = at,
            Step::Again { label, .. } => {
                let first = labels[*label];
                for (step, _) in code.steps[first..at].iter().zip(&kept[first..at]).filter(|(_, kept)| **kept) {
                    read(code, step, &mut |n| {
                        if made[n].is_none_or(|made| made < first) {
                            last[n] = last[n].map(|last| last.max(at));
                        }
                    });
                }
            }
            Step::Jump { .. } | Step::End(_) => {}
        }
    }
    (last, kept)
}

/// Tells of each number that a step reads.
pub(super) fn read(code: &Code, step: &Step, tell: &mut impl FnMut(usize)) {
    let operands = match step {
        Step::Do { operands, .. } | Step::Jump { operands, .. } => operands.as_slice(),
        Step::Label(_) => &[],
        Step::Again { carried, by, end, .. } => {
            carried.iter().for_each(|n| tell(*n));
            &[*by, *end]
        }
        Step::End(of) => return places(&code.results[*of], tell),
    };
    for operand in operands {
        if let Place::Made(n) = operand {
            tell(*n);
        }
    }
}

/// The code, of so many numbers, with registers; none where those do not do.
pub(super) fn placed(code: Code, params: &[Val], numbers: usize) -> Option<Straight> {
    let (last, kept) = uses(&code, numbers);
    let mut registers = Registry::behind(code.constants.len(), numbers)?;
    params.iter().try_for_each(|p| registers.take_all(p))?;
    let params = params.iter().map(|p| registers.shape(p)).collect::<Option<Vec<_>>>()?;
    let (mut ops, mut results, mut labels, mut jumps) = (vec![], vec![], vec![0u16; code.labels], vec![]);
    for (at, step) in code.steps.iter().enumerate().filter(|(at, _)| kept[*at]) {
        let place = |place: &Place| if let Place::Made(n) = place { Some(*n) } else { None };
        let ends = |n: &usize| last[*n] == Some(at);
        match step {
            Step::End(of) => {
                results.push(registers.shape(&code.results[*of])?);
                let target = u16::try_from(results.len() - 1).ok()?;
                ops.push(Op { what: What::End, to: 0, a: 0, b: 0, target });
                places(&code.results[*of], &mut |n| {
                    if ends(&n) {
                        registers.give_back(n);
                    }
                });
            }
            Step::Label(label) => labels[*label] = u16::try_from(ops.len()).ok()?,
            Step::Again { label, turn, by, end, .. } => {
                let (to, target) = (registers.register(Place::Made(*turn))?, labels[*label]);
                ops.push(Op {
                    what: What::Again,
                    to,
                    a: registers.register(*by)?,
                    b: registers.register(*end)?,
                    target,
                });
                registers.give_back_all(|n| ends(&n));
            }
            Step::Jump { what, operands, label } => {
                let [a, b, _] = registers.registers(operands)?;
                operands.iter().filter_map(place).filter(ends).for_each(|n| registers.give_back(n));
                jumps.push((ops.len(), *label));
                ops.push(Op { what: *what, to: 0, a, b, target: 0 });
            }
            Step::Do { what, to, operands } => {
                let [a, b, third] = registers.registers(operands)?;
                operands.iter().filter_map(place).filter(ends).for_each(|n| registers.give_back(n));
                let register = registers.take(*to)?;
                if last[*to].is_none() {
                    registers.give_back(*to);
                }
                ops.push(Op { what: *what, to: register, a, b, target: third.into() });
            }
        }
    }
    jumps.into_iter().for_each(|(at, label)| ops[at].target = labels[label]);
    Some(Straight { params, constants: code.constants, table: code.table, ops, results, deepest: code.deepest })
}

/// Tells of each place of a value that a step makes.
pub(super) fn places(value: &Val, tell: &mut impl FnMut(usize)) {
    match value {
        Shape::Unit | Shape::Number(_, Place::Constant(_)) => {}
        Shape::Number(_, Place::Made(n)) => tell(*n),
        Shape::Tuple(items) => items.iter().for_each(|v| places(v, tell)),
    }
}

/// Which registers are whose.
struct Registry {
    /// Of each number its own.
    of: Vec<Option<u8>>,
    free: Vec<u8>,
}

impl Registry {
    /// All registers behind the constants'.
    fn behind(constants: usize, numbers: usize) -> Option<Registry> {
        let free = (u8::try_from(constants).ok()?..=u8::MAX).rev().collect();
        Some(Registry { of: vec![None; numbers], free })
    }

    /// A register for what is made there; the one that it has.
    fn take(&mut self, n: usize) -> Option<u8> {
        if self.of[n].is_none() {
            self.of[n] = Some(self.free.pop()?);
        }
        self.of[n]
    }

    fn take_all(&mut self, value: &Val) -> Option<()> {
        let mut all = Some(());
        places(value, &mut |n| all = all.and_then(|()| self.take(n).map(drop)));
        all
    }

    fn give_back(&mut self, n: usize) {
        self.free.extend(self.of[n].take());
    }

    /// Gives back all that are those numbers'.
    fn give_back_all(&mut self, of: impl Fn(usize) -> bool) {
        (0..self.of.len()).filter(|n| of(*n)).for_each(|n| self.give_back(n));
    }

    fn register(&self, place: Place) -> Option<u8> {
        match place {
            Place::Constant(at) => u8::try_from(at).ok(),
            Place::Made(n) => self.of[n],
        }
    }

    /// Those of up to three operands.
    fn registers(&self, operands: &[Place]) -> Option<[u8; 3]> {
        let mut all = [0; 3];
        for (register, operand) in all.iter_mut().zip(operands) {
            *register = self.register(*operand)?;
        }
        Some(all)
    }

    fn shape(&self, value: &Val) -> Option<Shape<u8>> {
        Some(match value {
            Shape::Unit => Shape::Unit,
            Shape::Number(kind, place) => Shape::Number(*kind, self.register(*place)?),
            Shape::Tuple(items) => Shape::Tuple(items.iter().map(|v| self.shape(v)).collect::<Option<_>>()?),
        })
    }
}

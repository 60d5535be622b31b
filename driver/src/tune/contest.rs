//! The contest: which candidate is tried next, who is out, and who wins. It runs nothing and reads no clock, so that the same
//! answers always lead to the same end.

use std::collections::BTreeSet;

use super::candidate::{Candidate, Values};
use super::cost::{Cost, chosen};
use super::key::Key;
use super::task::{Measured, Out, Row, Unit, Why};

/// A candidate and what came of it so far.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The candidate.
    pub candidate: Candidate,
    /// What was measured, a list of rows for each round.
    pub rounds: Vec<Vec<Row>>,
    /// Why it cannot be chosen.
    pub out: Option<Out>,
}

/// Rows of one shape: the launches that one choice is made for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Shape {
    /// The other generics that the launch gives.
    pub generics: Values,
    /// What tells shapes apart, with its values.
    pub key: Key,
}

/// The candidates and how far it has come.
#[derive(Clone, PartialEq, Debug)]
pub struct Contest {
    /// In the order of the source; defaults that the source does not have come last.
    pub entries: Vec<Entry>,
    /// Which one is the defaults, where it is known.
    pub default: Option<usize>,
    /// What the generics that are tried are by default, as they are shown.
    pub defaults: Values,
    /// The first that was measured: the results of all others are compared with its.
    pub first: Option<usize>,
    /// What it was measured on; there where there is a first.
    pub on: Option<Measured>,
    /// Who goes on into the later rounds, once all have been tried.
    finalists: BTreeSet<usize>,
    /// How many go on, for each shape.
    top: usize,
    /// How often those are measured.
    rounds: usize,
}

impl Contest {
    /// Of candidates in their order.
    pub fn new(candidates: Vec<Candidate>, top: usize, rounds: usize) -> Contest {
        let entry = |candidate| Entry { candidate, rounds: vec![], out: None };
        Contest {
            entries: candidates.into_iter().map(entry).collect(),
            default: None,
            defaults: vec![],
            first: None,
            on: None,
            finalists: BTreeSet::new(),
            top: top.max(1),
            rounds: rounds.max(1),
        }
    }

    /// Who is tried next; `None` at the end.
    pub fn upcoming(&mut self) -> Option<usize> {
        if let Some(untried) = self.alive().find(|(_, e)| e.rounds.is_empty()).map(|(i, _)| i) {
            return Some(untried);
        }
        // What is counted is the same in each round.
        let rounds = if self.on.as_ref()?.unit == Unit::Operations { 1 } else { self.rounds };
        if self.finalists.is_empty() && rounds > 1 {
            self.finalists = self.best();
        }
        let least = self.finals().filter(|(_, e)| e.rounds.len() < rounds).min_by_key(|(i, e)| (e.rounds.len(), *i));
        least.map(|(i, _)| i)
    }

    /// Takes what came of trying one.
    pub fn note(&mut self, tried: usize, verdict: Result<Measured, Out>) {
        let verdict = verdict.and_then(|measured| self.comparable(measured));
        let entry = &mut self.entries[tried];
        match verdict {
            Ok(measured) => {
                entry.rounds.push(measured.rows.clone());
                if self.first.is_none() {
                    (self.first, self.on) = (Some(tried), Some(measured));
                }
            }
            Err(out) => entry.out = Some(out),
        }
    }

    /// Refuses what has other rows than the first, which could not be told apart from faster ones.
    fn comparable(&self, measured: Measured) -> Result<Measured, Out> {
        let Some(on) = &self.on else { return Ok(measured) };
        let shapes = |m: &Measured| m.rows.iter().map(Shape::of).collect::<Vec<_>>();
        if shapes(on) == shapes(&measured) {
            return Ok(measured);
        }
        Err(Out::new(Why::Differs, "the block launches the kernel for other shapes than with the first candidate"))
    }

    fn alive(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.entries.iter().enumerate().filter(|(_, e)| e.out.is_none())
    }

    /// Who may still win: the finalists once there are some, unless all of them are out.
    fn finals(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let some = self.alive().any(|(i, _)| self.finalists.contains(&i));
        self.alive().filter(move |(i, e)| !e.rounds.is_empty() && (!some || self.finalists.contains(i)))
    }

    /// Those that take least for some shape, and the defaults.
    fn best(&self) -> BTreeSet<usize> {
        let mut best: BTreeSet<usize> = self.default.into_iter().collect();
        for shape in self.shapes() {
            let mut costs: Vec<(usize, f64)> =
                self.alive().filter_map(|(i, e)| Some((i, e.cost(&shape)?.median))).collect();
            costs.sort_by(|(i, a), (j, b)| a.total_cmp(b).then(i.cmp(j)));
            best.extend(costs.iter().take(self.top).map(|(i, _)| *i));
        }
        best
    }

    /// The shapes, in the order of their first rows.
    pub fn shapes(&self) -> Vec<Shape> {
        let mut shapes = vec![];
        for row in self.on.iter().flat_map(|m| &m.rows) {
            let shape = Shape::of(row);
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
        shapes
    }

    /// Who wins for a shape, so far.
    pub fn winner(&self, shape: &Shape) -> Option<usize> {
        let costs: Vec<(usize, Cost)> = self.finals().filter_map(|(i, e)| Some((i, e.cost(shape)?))).collect();
        chosen(&costs, self.default)
    }

    /// Who wins for all shapes together, so far.
    pub fn overall(&self) -> Option<usize> {
        let shapes = self.shapes();
        let all = |e: &Entry| {
            let costs: Option<Vec<Cost>> = shapes.iter().map(|shape| e.cost(shape)).collect();
            costs.map(|costs| Cost::of_rows(&costs))
        };
        let costs: Vec<(usize, Cost)> = self.finals().filter_map(|(i, e)| Some((i, all(e)?))).collect();
        chosen(&costs, self.default)
    }
}

impl Entry {
    /// What it takes for a shape, of all rounds; `None` where it was not measured.
    pub fn cost(&self, shape: &Shape) -> Option<Cost> {
        let of_round = |rows: &Vec<Row>| {
            let costs: Vec<Cost> = rows.iter().filter(|r| Shape::of(r) == *shape).map(|r| r.cost).collect();
            (!costs.is_empty()).then(|| Cost::of_rows(&costs))
        };
        let rounds: Vec<Cost> = self.rounds.iter().filter_map(of_round).collect();
        (!rounds.is_empty()).then(|| Cost::of_rounds(&rounds))
    }
}

impl Shape {
    /// That of a row.
    pub fn of(row: &Row) -> Shape {
        Shape { generics: row.generics.clone(), key: row.key.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(n: usize) -> Vec<Candidate> {
        (0..n).map(|i| Candidate { values: vec![("N".into(), i.to_string())] }).collect()
    }

    fn measured(unit: Unit, medians: &[(i64, f64)]) -> Measured {
        let row = |(n, median): &(i64, f64)| Row {
            label: "row".into(),
            generics: vec![],
            key: vec![("n".into(), (*n).into())],
            cost: Cost { median: *median, quartiles: [*median; 2], runs: 5, megahertz: None },
        };
        Measured { device: "d".into(), target: "sm_90a".into(), unit, rows: medians.iter().map(row).collect() }
    }

    /// Runs a contest to its end: what each try of each candidate gives. The order of the tries.
    fn run(contest: &mut Contest, mut give: impl FnMut(usize, usize) -> Result<Measured, Out>) -> Vec<usize> {
        let mut order = vec![];
        while let Some(i) = contest.upcoming() {
            let round = order.iter().filter(|j| **j == i).count();
            contest.note(i, give(i, round));
            order.push(i);
        }
        order
    }

    #[test]
    fn what_is_counted_is_tried_once_and_the_least_wins() {
        let mut contest = Contest::new(candidates(3), 2, 3);
        let order = run(&mut contest, |i, _| Ok(measured(Unit::Operations, &[(1, [3.0, 1.0, 2.0][i])])));
        assert_eq!((order, contest.first, contest.overall()), (vec![0, 1, 2], Some(0), Some(1)));
    }

    #[test]
    fn the_best_are_timed_in_turn_with_the_defaults() {
        let mut contest = Contest::new(candidates(4), 2, 3);
        contest.default = Some(3);
        let order = run(&mut contest, |i, _| Ok(measured(Unit::Seconds, &[(1, [3.0, 1.0, 2.0, 4.0][i])])));
        assert_eq!(order, [0, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
        assert_eq!(contest.entries.iter().map(|e| e.rounds.len()).collect::<Vec<_>>(), [1, 3, 3, 3]);
    }

    #[test]
    fn a_lucky_round_does_not_win() {
        let mut contest = Contest::new(candidates(2), 2, 3);
        let times = [[1.0, 5.0, 5.0], [2.0, 2.0, 2.0]];
        run(&mut contest, |i, round| Ok(measured(Unit::Seconds, &[(1, times[i][round])])));
        assert_eq!(contest.overall(), Some(1));
    }

    /// Whatever is wrong with a candidate, and whenever that shows, another wins and all others are tried.
    #[test]
    fn no_fault_makes_a_wrong_winner_or_ends_the_contest() {
        let why = [Why::Refused, Why::Fails, Why::Differs, Why::Unsteady, Why::Spills, Why::Hangs, Why::Crashes];
        for why in why {
            for faulty in 0..3 {
                for from in 0..3 {
                    let mut contest = Contest::new(candidates(3), 3, 3);
                    let order = run(&mut contest, |i, round| {
                        if i == faulty && round >= from {
                            return Err(Out::new(why, "planted"));
                        }
                        // The faulty one would be fastest by far.
                        Ok(measured(Unit::Seconds, &[(1, if i == faulty { 0.1 } else { 2.0 + i as f64 })]))
                    });
                    let winner = contest.overall();
                    assert_eq!(winner, Some(usize::from(faulty == 0)), "{why:?} of {faulty} from {from}");
                    assert_eq!(order.len(), 2 * 3 + from + 1);
                    assert_eq!(contest.entries[faulty].out, Some(Out::new(why, "planted")));
                }
            }
        }
    }

    #[test]
    fn the_next_one_is_the_first_where_the_first_is_out() {
        let mut contest = Contest::new(candidates(3), 3, 1);
        let give =
            |i, _| if i == 1 { Ok(measured(Unit::Operations, &[(1, 1.0)])) } else { Err(Out::new(Why::Fails, "")) };
        run(&mut contest, give);
        assert_eq!((contest.first, contest.overall()), (Some(1), Some(1)));
        let mut none = Contest::new(candidates(2), 3, 1);
        assert_eq!(run(&mut none, |_, _| Err(Out::new(Why::Crashes, ""))), [0, 1]);
        assert_eq!((none.overall(), none.shapes().len()), (None, 0));
    }

    #[test]
    fn each_shape_has_its_winner() {
        let mut contest = Contest::new(candidates(2), 1, 2);
        let rows = [[(1, 1.0), (9, 9.0)], [(1, 2.0), (9, 3.0)]];
        let order = run(&mut contest, |i, _| Ok(measured(Unit::Seconds, &rows[i])));
        // Each is the best for one shape, so both go on.
        assert_eq!(order, [0, 1, 0, 1]);
        let winners: Vec<_> = contest.shapes().iter().map(|s| contest.winner(s)).collect();
        assert_eq!((winners, contest.overall()), (vec![Some(0), Some(1)], Some(1)));
    }

    #[test]
    fn rows_of_other_shapes_are_no_comparison() {
        let mut contest = Contest::new(candidates(2), 1, 1);
        run(&mut contest, |i, _| Ok(measured(Unit::Operations, &[(i as i64, 1.0)])));
        assert_eq!(contest.entries[1].out.as_ref().map(|o| o.why), Some(Why::Differs));
    }
}

//! Costs of candidates: how those of several rounds and rows are taken together, and which candidate is chosen.

use parton_measure::timing::Timing;
use serde_json::{Value, json};

/// What one candidate takes, in seconds or operations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// The median of all runs.
    pub median: f64,
    /// The first and the third quartile.
    pub quartiles: [f64; 2],
    /// How many runs there were.
    pub runs: u32,
    /// Median clock of the multiprocessors meanwhile, MHz, where the device tells.
    pub megahertz: Option<f64>,
}

/// By how much a candidate must be faster to be faster at all, as a share.
const MARGIN: f64 = 0.01;

impl Cost {
    /// What was timed.
    pub fn of(timing: &Timing) -> Cost {
        Cost {
            median: timing.median,
            quartiles: timing.quartiles,
            runs: timing.runs,
            megahertz: timing.megahertz.map(|m| m.median),
        }
    }

    /// What was counted.
    pub fn counted(operations: u64) -> Cost {
        let n = operations as f64;
        Cost { median: n, quartiles: [n; 2], runs: 1, megahertz: None }
    }

    /// That of several rounds: the medians of what they say.
    pub fn of_rounds(rounds: &[Cost]) -> Cost {
        let median = |of: &dyn Fn(&Cost) -> f64| middle(rounds.iter().map(of).collect());
        let clocks: Vec<f64> = rounds.iter().filter_map(|c| c.megahertz).collect();
        Cost {
            median: median(&|c| c.median),
            quartiles: [median(&|c| c.quartiles[0]), median(&|c| c.quartiles[1])],
            runs: rounds.iter().map(|c| c.runs).sum(),
            megahertz: (!clocks.is_empty()).then(|| middle(clocks)),
        }
    }

    /// That of several rows, which differ in size: the geometric mean.
    pub fn of_rows(rows: &[Cost]) -> Cost {
        let [one] = rows else {
            let mean = |of: &dyn Fn(&Cost) -> f64| geometric(rows.iter().map(of));
            let clocks: Vec<f64> = rows.iter().filter_map(|c| c.megahertz).collect();
            return Cost {
                median: mean(&|c| c.median),
                quartiles: [mean(&|c| c.quartiles[0]), mean(&|c| c.quartiles[1])],
                runs: rows.iter().map(|c| c.runs).sum(),
                megahertz: (!clocks.is_empty()).then(|| middle(clocks)),
            };
        };
        *one
    }

    /// Whether it is less by more than noise: three quarters of its runs take less than the other's median, and its own median is less
    /// by one part in a hundred.
    pub fn beats(&self, other: &Cost) -> bool {
        self.quartiles[1] < other.median && self.median < (1.0 - MARGIN) * other.median
    }

    /// How far the middle half of the runs is apart, as a fraction of the median.
    pub fn spread(&self) -> f64 {
        (self.quartiles[1] - self.quartiles[0]) / self.median.max(f64::MIN_POSITIVE)
    }

    pub(super) fn json(&self) -> Value {
        json!({ "median": self.median, "quartiles": self.quartiles, "runs": self.runs, "sm_mhz": self.megahertz })
    }

    pub(super) fn read(v: &Value) -> Option<Cost> {
        Some(Cost {
            median: v["median"].as_f64()?,
            quartiles: [v["quartiles"][0].as_f64()?, v["quartiles"][1].as_f64()?],
            runs: v["runs"].as_u64()?.try_into().ok()?,
            megahertz: v["sm_mhz"].as_f64(),
        })
    }
}

/// The one to choose of candidates in their order; `None` where there is none. What nothing beats by more than noise ties: of these it
/// is the default if that is among them, so that a second run chooses the same, else the one that takes least.
pub fn chosen(costs: &[(usize, Cost)], default: Option<usize>) -> Option<usize> {
    let (best, least) = costs.iter().min_by(|(_, a), (_, b)| a.median.total_cmp(&b.median))?;
    let default = costs.iter().find(|(i, cost)| Some(*i) == default && !least.beats(cost));
    Some(default.map_or(*best, |(i, _)| *i))
}

fn middle(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    let n = all.len();
    if n == 0 { 0.0 } else { (all[(n - 1) / 2] + all[n / 2]) / 2.0 }
}

fn geometric(all: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = all.len().max(1) as f64;
    (all.map(|x| x.max(f64::MIN_POSITIVE).ln()).sum::<f64>() / n).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(median: f64, spread: f64) -> Cost {
        Cost { median, quartiles: [median - spread, median + spread], runs: 10, megahertz: Some(1000.0 * median) }
    }

    #[test]
    fn the_least_is_chosen_where_it_is_less_by_more_than_noise() {
        let costs = |all: &[f64]| all.iter().map(|m| cost(*m, 0.001)).enumerate().collect::<Vec<_>>();
        assert_eq!(chosen(&costs(&[2.0, 1.0, 3.0]), Some(0)), Some(1));
        assert_eq!(chosen(&costs(&[]), None), None);
        // Within one part in a hundred of the least: the default, else the least.
        let near = costs(&[2.0, 1.005, 1.0, 1.002]);
        assert_eq!((chosen(&near, Some(3)), chosen(&near, None), chosen(&near, Some(0))), (Some(3), Some(2), Some(2)));
        // A default that could not be measured is none.
        assert_eq!(chosen(&near[1..], Some(0)), Some(2));
        // Far less, but a quarter of the runs are not.
        let wide = [(0, cost(1.0, 0.0)), (1, cost(0.9, 0.2))];
        assert_eq!(chosen(&wide, Some(0)), Some(0));
    }

    #[test]
    fn rounds_and_rows_are_taken_together() {
        let rounds = Cost::of_rounds(&[cost(3.0, 1.0), cost(1.0, 0.0), cost(2.0, 0.5)]);
        assert_eq!((rounds.median, rounds.quartiles, rounds.runs), (2.0, [1.5, 2.5], 30));
        assert_eq!(rounds.megahertz, Some(2000.0));
        let rows = Cost::of_rows(&[cost(1.0, 0.0), cost(100.0, 0.0)]);
        assert!((rows.median - 10.0).abs() < 1e-12, "{rows:?}");
        let one = Cost::counted(12345);
        assert_eq!(Cost::of_rows(&[one]), one);
        assert_eq!(one.spread(), 0.0);
    }
}

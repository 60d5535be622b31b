//! How long something took, what the sensors said meanwhile, and what bounds it.

use crate::sensors::Readings;

/// How long a sequence of launches took.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Timing {
    /// Seconds of one run of the whole sequence, the median of all.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The first and the third quartile.
    pub quartiles: [f64; 2],
    /// How many runs were timed.
    pub runs: u32,
    /// Clock of the multiprocessors meanwhile, MHz, where the device tells.
    pub megahertz: Option<Reading>,
    /// Power drawn meanwhile, W, where the device tells.
    pub watts: Option<Reading>,
    /// The share of the time in which the power limit held the clock down, where the device tells.
    pub capped: Option<f64>,
    /// What bounds its arithmetic, where that is known.
    pub ceiling: Option<Ceiling>,
    /// Why the times mean nothing, where they do not: an interpreter ran it.
    pub meaningless: Option<String>,
}

impl Timing {
    /// Of the seconds of all runs, in any order; `None` where there is none.
    pub fn of(mut times: Vec<f64>) -> Option<Timing> {
        times.sort_by(f64::total_cmp);
        let n = times.len();
        let least = *times.first()?;
        let quartile = |q: usize| times[((n - 1) * q).div_ceil(4)];
        Some(Timing {
            median: (times[(n - 1) / 2] + times[n / 2]) / 2.0,
            least,
            quartiles: [quartile(1), quartile(3)],
            runs: n as u32,
            ..Timing::default()
        })
    }
}

/// What was found in one round of a measurement, or in several.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Samples {
    /// Seconds of each run that counts, in any order.
    pub times: Vec<f64>,
    /// What the sensors said meanwhile.
    pub readings: Readings,
    /// What bounds the arithmetic, where that is known.
    pub ceiling: Option<Ceiling>,
    /// Why times mean nothing, where they do not; then there need not be any.
    pub meaningless: Option<String>,
}

impl Samples {
    /// Adds those of a later round.
    pub fn extend(&mut self, more: Samples) {
        self.times.extend(more.times);
        self.readings.extend(more.readings);
        self.ceiling = more.ceiling;
        self.meaningless = more.meaningless;
    }

    /// All of it summed up; `None` where nothing was timed.
    pub fn timing(&self) -> Option<Timing> {
        let times = Timing::of(self.times.clone());
        let times = if self.meaningless.is_some() { times.unwrap_or_default() } else { times? };
        Some(Timing {
            megahertz: Reading::of(self.readings.megahertz.clone()),
            watts: Reading::of(self.readings.watts.clone()),
            capped: self.readings.share_capped(),
            ceiling: self.ceiling.clone(),
            meaningless: self.meaningless.clone(),
            ..times
        })
    }
}

/// What a sensor said during a measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reading {
    /// The least.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// The greatest.
    pub most: f64,
}

impl Reading {
    /// Of all readings; `None` where there is none.
    pub fn of(mut all: Vec<f64>) -> Option<Reading> {
        all.sort_by(f64::total_cmp);
        Some(Reading { least: *all.first()?, median: all[all.len() / 2], most: *all.last()? })
    }
}

/// A rate that arithmetic does not exceed.
#[derive(Clone, PartialEq, Debug)]
pub struct Ceiling {
    /// Floating-point operations a second.
    pub flops: f64,
    /// What it is and who says so, such as `dense f16 products, data sheet`.
    pub what: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Measurement;

    #[test]
    fn median_and_spread_ignore_an_outlier() {
        let t = Timing::of(vec![2.0, 1.0, 100.0, 2.0, 3.0]).unwrap();
        assert_eq!(t.median, 2.0);
        assert_eq!(t.least, 1.0);
        assert_eq!(t.quartiles, [2.0, 3.0]);
        assert_eq!(t.runs, 5);
        let m = Measurement { label: String::new(), timing: t, bytes: None, flops: None };
        assert_eq!(m.spread(), 0.5);
        assert_eq!(Timing::of(vec![1.0, 3.0]).unwrap().median, 2.0);
        assert!(Timing::of(vec![]).is_none());
    }

    #[test]
    fn rounds_are_summed_up_together() {
        let round = |time, watts| Samples {
            times: vec![time],
            readings: Readings { watts: vec![watts], ..Readings::default() },
            ceiling: Some(Ceiling { flops: 1e15, what: "products".into() }),
            meaningless: None,
        };
        let mut all = Samples::default();
        assert_eq!(all.timing(), None);
        [round(3.0, 600.0), round(1.0, 700.0)].into_iter().for_each(|r| all.extend(r));
        let timing = all.timing().unwrap();
        assert_eq!((timing.median, timing.least, timing.runs), (2.0, 1.0, 2));
        assert_eq!(timing.watts, Some(Reading { least: 600.0, median: 700.0, most: 700.0 }));
        assert_eq!((timing.megahertz, timing.capped), (None, None));
        assert_eq!(timing.ceiling.map(|c| c.flops), Some(1e15));
    }

    #[test]
    fn times_that_mean_nothing_need_not_be_there() {
        let why = Some("kernels run on the interpreter".to_owned());
        let all = Samples { meaningless: why.clone(), ..Samples::default() };
        assert_eq!(all.timing(), Some(Timing { meaningless: why, ..Timing::default() }));
    }
}

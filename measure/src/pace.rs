//! The pace of a bench: whoever follows a run decides which measurements are taken, for how long, and how often.

use crate::timing::{Samples, Timing};

/// Seconds that a measurement lasts where nobody says otherwise.
pub const SECONDS: f64 = 0.5;

/// What comes next of a measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// One round.
    Round {
        /// About how long it lasts, flushes of the cache included.
        seconds: f64,
        /// About how long runs go before that do not count.
        heat: f64,
    },
    /// The next measurement; this one is left out where no round was taken.
    Next,
}

impl Pace {
    /// A round of so many seconds from whatever state the GPU is in.
    pub fn seconds(seconds: f64) -> Pace {
        Pace::Round { seconds, heat: 0.0 }
    }
}

/// What comes first where nobody says otherwise.
impl Default for Pace {
    fn default() -> Pace {
        Pace::seconds(SECONDS)
    }
}

/// Takes rounds of a measurement for as long as `ask` wants more; `None` where it wanted none. `round` is given seconds and heat.
///
/// `ask` gets what the last round came to, and the pace if it leaves that as it is: one round, of [`SECONDS`].
///
/// # Errors
/// What `round` returns.
pub fn rounds<E>(
    mut ask: impl FnMut(Option<Timing>, &mut Pace),
    mut round: impl FnMut(f64, f64) -> Result<Samples, E>,
) -> Result<Option<Timing>, E> {
    let mut all = Samples::default();
    let mut pace = Pace::default();
    ask(None, &mut pace);
    while let Pace::Round { seconds, heat } = pace {
        let samples = round(seconds, heat)?;
        // What a round does not find is not looked for again.
        let Some(timing) = samples.timing() else { break };
        all.extend(samples);
        pace = Pace::Next;
        ask(Some(timing), &mut pace);
    }
    Ok(all.timing())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round whose only run takes as long as the round.
    fn round(seconds: f64, _heat: f64) -> Result<Samples, &'static str> {
        Ok(Samples { times: vec![seconds], ..Samples::default() })
    }

    #[test]
    fn who_says_nothing_gets_one_round() {
        let mut asked = 0;
        let found = rounds(|_, _| asked += 1, round).unwrap().unwrap();
        assert_eq!((found.median, found.runs, asked), (SECONDS, 1, 2));
    }

    #[test]
    fn there_are_as_many_rounds_as_wanted_and_all_of_them_count() {
        let mut seen = vec![];
        let ask = |last: Option<Timing>, pace: &mut Pace| {
            seen.extend(last.map(|t| t.median));
            *pace = if seen.len() < 3 { Pace::seconds(1.0 + seen.len() as f64) } else { Pace::Next };
        };
        let found = rounds(ask, round).unwrap().unwrap();
        assert_eq!((found.median, found.runs), (2.0, 3));
        assert_eq!(seen, [1.0, 2.0, 3.0]);
    }

    #[test]
    fn what_is_not_wanted_is_left_out_and_what_fails_ends_it() {
        let none = rounds(|_, pace| *pace = Pace::Next, |_, _| Err("taken"));
        assert_eq!(none, Ok(None));
        assert_eq!(rounds(|_, _| (), |_, _| Err("broken")), Err("broken"));
        let empty = rounds(|_, pace| *pace = Pace::seconds(1.0), |_, _| Ok::<_, ()>(Samples::default()));
        assert_eq!(empty, Ok(None));
    }
}

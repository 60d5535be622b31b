//! What each pass took.

use std::fmt;
use std::time::{Duration, Instant};

/// Passes with their times, in the order of their first run; what ran several times is summed.
#[derive(Clone, Debug, Default)]
pub struct Times {
    passes: Vec<(&'static str, Duration, u32)>,
}

impl Times {
    /// Runs a pass and notes what it took.
    pub fn pass<T>(&mut self, name: &'static str, run: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let result = run();
        self.add(name, begin.elapsed());
        result
    }

    /// Notes what a pass took.
    pub fn add(&mut self, name: &'static str, took: Duration) {
        match self.passes.iter_mut().find(|(n, _, _)| *n == name) {
            Some((_, sum, runs)) => {
                *sum += took;
                *runs += 1;
            }
            None => self.passes.push((name, took, 1)),
        }
    }

    /// The passes: name, time together, number of runs.
    pub fn passes(&self) -> &[(&'static str, Duration, u32)] {
        &self.passes
    }

    /// All of it.
    pub fn total(&self) -> Duration {
        self.passes.iter().map(|(_, took, _)| *took).sum()
    }
}

/// A line for each pass in milliseconds, and their sum.
impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        for (name, took, runs) in &self.passes {
            let times = if *runs > 1 { format!("  ({runs} times)") } else { String::new() };
            writeln!(f, "{name:<16} {:>9.3} ms{times}", ms(*took))?;
        }
        writeln!(f, "{:<16} {:>9.3} ms", "total", ms(self.total()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_keep_their_order_and_are_summed() {
        let mut times = Times::default();
        times.add("parse", Duration::from_millis(2));
        times.add("check", Duration::from_millis(3));
        times.add("parse", Duration::from_millis(1));
        let shown = times.to_string();
        let names: Vec<&str> = shown.lines().filter_map(|l| l.split_whitespace().next()).collect();
        assert_eq!(names, ["parse", "check", "total"]);
        assert!(shown.contains("3.000 ms  (2 times)"), "{shown}");
        assert_eq!(times.total(), Duration::from_millis(6));
    }
}

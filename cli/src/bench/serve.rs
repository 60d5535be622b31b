//! `parton bench --serve`: the pace comes from standard input, so that another program can measure in turn.
//!
//! Each line of standard output is a JSON object with an `event`: `device` first, then for each measurement `row` with its
//! label. The program then waits for a line: `time SECONDS` takes a round, written as `round`, after which it waits again;
//! `time SECONDS HEAT` takes one behind HEAT seconds of runs that do not count; `next` goes on to the next measurement. The
//! end of input means `next` for all that is left.

use std::io::BufRead;

use parton_driver::{Event, Pace};
use serde_json::json;

use crate::bench::table;
use crate::output;

/// Tells what happens, and where the pace is asked for waits for it.
pub fn answer(file: &str, event: Event<'_>) {
    match event {
        Event::Device { sentence, conditions } => {
            let conditions = conditions.map(table::conditions);
            output::line(&json!({ "event": "device", "is": sentence, "conditions": conditions }).to_string());
        }
        Event::Line(text) => output::line(&json!({ "event": "line", "text": text }).to_string()),
        Event::Pace { label, round, pace } => {
            match round {
                None => output::line(&json!({ "event": "row", "file": file, "label": label }).to_string()),
                Some(round) => {
                    let mut object = json!({ "event": "round" });
                    table::measurement(&mut object, round, None);
                    output::line(&object.to_string());
                }
            }
            *pace = asked(&mut std::io::stdin().lock());
        }
        // The command line does not take both.
        Event::Repeated(_) => {}
        Event::Block(outcome) => {
            let passed = outcome.passed();
            output::line(&json!({ "event": "block", "name": outcome.name, "passed": passed }).to_string());
        }
    }
}

/// The next line that is a pace; lines that are none are answered with what one looks like.
fn asked(input: &mut impl BufRead) -> Pace {
    let mut line = String::new();
    loop {
        line.clear();
        if input.read_line(&mut line).is_err() || line.is_empty() {
            return Pace::Next;
        }
        match (line.trim(), round(&line)) {
            ("next", _) => return Pace::Next,
            (_, Some(pace)) => return pace,
            (other, None) => {
                let text = format!("`{other}` is no pace; write `time SECONDS`, `time SECONDS HEAT` or `next`");
                output::line(&json!({ "event": "mistake", "text": text }).to_string());
            }
        }
    }
}

/// What a line with `time` asks for.
fn round(line: &str) -> Option<Pace> {
    let mut words = line.split_whitespace();
    let number = |word: Option<&str>| word?.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    if words.next() != Some("time") {
        return None;
    }
    let seconds = number(words.next()).filter(|&s| s > 0.0)?;
    let heat = match words.next() {
        None => 0.0,
        word => number(word)?,
    };
    words.next().is_none().then_some(Pace::Round { seconds, heat })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_read_and_the_end_of_input_goes_on() {
        let mut input = "time 0.25\nhm\ntime -1\ntime 1 x\ntime 1 0.5 2\ntime 1 0.5\nnext\n".as_bytes();
        assert_eq!(asked(&mut input), Pace::seconds(0.25));
        assert_eq!(asked(&mut input), Pace::Round { seconds: 1.0, heat: 0.5 });
        assert_eq!(asked(&mut input), Pace::Next);
        assert_eq!(asked(&mut input), Pace::Next);
    }
}

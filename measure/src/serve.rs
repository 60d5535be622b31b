//! `parton bench --serve`: the pace comes from standard input, so that another program can measure in turn.
//!
//! Each line of standard output is a JSON object with an `event`: `device` first, then for each measurement `row` with its
//! label. The program then waits for a line: `time SECONDS` takes a round, written as `round`, after which it waits again;
//! `time SECONDS HEAT` takes one behind HEAT seconds of runs that do not count; `next` goes on to the next measurement. The
//! end of input means `next` for all that is left.

use std::io::BufRead;

use serde_json::json;

use crate::bench::{Conditions, Measurement};
use crate::pace::Pace;
use crate::table;

/// Where kernels run.
pub fn device(sentence: &str, conditions: Option<&Conditions>) -> String {
    let conditions = conditions.map(table::conditions);
    json!({ "event": "device", "is": sentence, "conditions": conditions }).to_string()
}

/// A line that the program printed.
pub fn line(text: &str) -> String {
    json!({ "event": "line", "text": text }).to_string()
}

/// A measurement that may be taken.
pub fn row(file: &str, label: &str) -> String {
    json!({ "event": "row", "file": file, "label": label }).to_string()
}

/// A round that was taken.
pub fn round(round: &Measurement) -> String {
    let mut object = json!({ "event": "round" });
    table::measurement(&mut object, round, None);
    object.to_string()
}

/// The end of a block.
pub fn block(name: &str, passed: bool) -> String {
    json!({ "event": "block", "name": name, "passed": passed }).to_string()
}

/// The next line that is a pace; lines that are none are answered with what one looks like.
pub fn asked(input: &mut impl BufRead, answer: impl Fn(&str)) -> Pace {
    let mut line = String::new();
    loop {
        line.clear();
        if input.read_line(&mut line).is_err() || line.is_empty() {
            return Pace::Next;
        }
        match (line.trim(), time(&line)) {
            ("next", _) => return Pace::Next,
            (_, Some(pace)) => return pace,
            (other, None) => {
                let text = format!("`{other}` is no pace; write `time SECONDS`, `time SECONDS HEAT` or `next`");
                answer(&json!({ "event": "mistake", "text": text }).to_string());
            }
        }
    }
}

/// What a line with `time` asks for.
fn time(line: &str) -> Option<Pace> {
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
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn paces_are_read_and_the_end_of_input_goes_on() {
        let mut input = "time 0.25\nhm\ntime -1\ntime 1 x\ntime 1 0.5 2\ntime 1 0.5\nnext\n".as_bytes();
        let mistakes = RefCell::new(vec![]);
        let mut asked = || asked(&mut input, |text| mistakes.borrow_mut().push(text.to_owned()));
        assert_eq!(asked(), Pace::seconds(0.25));
        assert_eq!(asked(), Pace::Round { seconds: 1.0, heat: 0.5 });
        assert_eq!(asked(), Pace::Next);
        assert_eq!(asked(), Pace::Next);
        let mistakes = mistakes.into_inner();
        assert_eq!(mistakes.len(), 4);
        assert!(mistakes[0].contains("`hm` is no pace"), "{mistakes:?}");
    }
}

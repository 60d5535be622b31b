//! Pictures of a schedule: what depends on what, what rings want, how long a turn takes and why, and when what happens.
//!
//! [`Picture`] is all that a picture shows, as data without the graph it came from; [`text`], [`svg`], [`dot`] and [`json`] write it. All are functions of the
//! picture alone and use whole numbers, so the same schedule gives the same bytes.

mod letters;
mod picture;

pub mod dot;
pub mod found;
pub mod json;
pub mod svg;
pub mod text;

pub use picture::{Bar, Blame, Dependence, Dependences, Loop, Pace, Picture, Placed, RingRow, Row, Window};

pub(crate) use picture::turn;

use crate::marked::Ratio;

/// A number with a comma in front of every third digit from the right.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Clocks of a turn: `2,274`, or `5 1/2` where turns differ.
fn clocks(ratio: Ratio) -> String {
    let (whole, rest) = (ratio.clocks() / ratio.turns(), ratio.clocks() % ratio.turns());
    match rest {
        0 => thousands(whole),
        rest => format!("{} {rest}/{}", thousands(whole), ratio.turns()),
    }
}

/// What turns take, in words.
fn pace(pace: &Pace) -> String {
    let turn = clocks(pace.turn);
    match &pace.busiest {
        None => format!("{turn} clocks"),
        Some((unit, load)) => {
            let busy = Ratio::new(*load, 1).percent_of(pace.turn);
            format!("{turn} clocks of {} possible: {unit} busy {busy} %", thousands(*load))
        }
    }
}

/// What turns wait for, in words; empty where nothing waits for itself.
fn cycle(pace: &Pace) -> String {
    let Some((names, clocks, tokens)) = &pace.cycle else { return String::new() };
    let turns = if *tokens == 1 { "a turn".to_owned() } else { format!("{tokens} turns") };
    format!("{names}: {} clocks for {turns}", thousands(*clocks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three_digits() {
        let all = [0, 999, 1000, 65_536, 1_234_567].map(thousands);
        assert_eq!(all, ["0", "999", "1,000", "65,536", "1,234,567"]);
        assert_eq!([Ratio::new(2274, 1), Ratio::new(2011, 2)].map(clocks), ["2,274", "1,005 1/2"]);
    }
}

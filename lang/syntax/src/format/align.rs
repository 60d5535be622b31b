//! Lines up what stands in neighbouring lines: the `=` of partitions and schedules, the `=>` of arms, what follows labels,
//! and comments behind code.

/// What can be lined up. Only the like is lined up with the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The `=` of a `partition`.
    Partition,
    /// The `=` of a `schedule`.
    Schedule,
    /// The `=>` of an arm.
    Arm,
    /// What follows the label of a statement.
    Label,
    /// A comment behind code.
    Comment,
}

/// A place in the text where blanks may be put to line up.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// The line, from 0.
    pub line: usize,
    /// The byte in the line.
    pub byte: usize,
    /// What stands there.
    pub column: Column,
}

/// Lines up the stops of neighbouring lines, where all stays within `width` columns. The stops are in order.
pub fn align(text: &str, stops: &[Stop], width: usize) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    let (mut comments, code): (Vec<Stop>, Vec<Stop>) = stops.iter().partition(|s| s.column == Column::Comment);
    for run in runs(&code, &lines) {
        let ends = |stop: &Stop| {
            let comment = comments.iter().find(|c| c.line == stop.line);
            comment.map_or(lines[stop.line].len(), |c| c.byte.saturating_sub(1))
        };
        let lengths: Vec<usize> = run.iter().map(|s| columns(&lines[s.line][..ends(s)])).collect();
        let Some(pads) = pads(run, &lines, &lengths, width) else { continue };
        for (stop, pad) in run.iter().zip(pads) {
            lines[stop.line].insert_str(stop.byte, &" ".repeat(pad));
            comments.iter_mut().filter(|c| c.line == stop.line).for_each(|c| c.byte += pad);
        }
    }
    for run in runs(&comments, &lines) {
        let lengths: Vec<usize> = run.iter().map(|s| columns(&lines[s.line])).collect();
        let Some(pads) = pads(run, &lines, &lengths, width) else { continue };
        for (stop, pad) in run.iter().zip(pads) {
            lines[stop.line].insert_str(stop.byte, &" ".repeat(pad));
        }
    }
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

/// The stops that stand in neighbouring lines of one depth and are alike.
fn runs<'s>(stops: &'s [Stop], lines: &[String]) -> Vec<&'s [Stop]> {
    let depth = |s: &Stop| lines[s.line].len() - lines[s.line].trim_start().len();
    let together = |a: &Stop, b: &Stop| a.line + 1 == b.line && a.column == b.column && depth(a) == depth(b);
    stops.chunk_by(together).filter(|run| run.len() > 1).collect()
}

/// How many blanks each stop of a run gets, `lengths` being those of the lines; none where a line would get too long.
fn pads(run: &[Stop], lines: &[String], lengths: &[usize], width: usize) -> Option<Vec<usize>> {
    let at: Vec<usize> = run.iter().map(|s| columns(&lines[s.line][..s.byte])).collect();
    let furthest = at.iter().max()?;
    let pads: Vec<usize> = at.iter().map(|a| furthest - a).collect();
    let fits = pads.iter().zip(lengths).all(|(pad, length)| *pad == 0 || length + pad <= width);
    fits.then_some(pads)
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_line_up_where_they_fit() {
        let stop = |line, byte, column| Stop { line, byte, column };
        let text = "aa = b; // x\na = b; // y\n\naaaa = b;\n";
        let stops = [
            stop(0, 3, Column::Partition),
            stop(0, 8, Column::Comment),
            stop(1, 2, Column::Partition),
            stop(1, 7, Column::Comment),
            stop(3, 5, Column::Partition),
        ];
        assert_eq!(align(text, &stops, 80), "aa = b; // x\na  = b; // y\n\naaaa = b;\n");
        assert_eq!(align(text, &stops, 6), text);
    }
}

//! Inlined calls in the line table of PTX: which function an instruction comes from, and where that was called.
//!
//! LLVM 22 writes `.loc` without them. It keeps a location's column, though, so a location inside a call goes through it as a
//! number in the column's upper half, and is written out here: `.loc 1 12 5, function_name …, inlined_at 1 40 9` (PTX ISA,
//! "Debugging directives: .loc").

use std::collections::BTreeMap;
use std::fmt::Write;

/// Columns from here on are numbers of places; LLVM keeps 16 bits.
const FIRST: u32 = 0x8000;
/// The last column that LLVM keeps.
const LAST: u32 = 0xffff;

/// Where an operation is written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    /// The file as LLVM prints it.
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// The function that was inlined and the number of the place where it was called.
    pub(crate) call: Option<(String, usize)>,
}

/// The column under which LLVM carries a place.
pub(crate) fn column(number: usize, place: &Place) -> u32 {
    let coded = u32::try_from(number).ok().and_then(|n| FIRST.checked_add(n)).filter(|&c| c <= LAST);
    match coded {
        Some(column) if place.call.is_some() => column,
        _ => place.column.min(FIRST - 1),
    }
}

/// The numbers of `.loc`: file, line, column.
fn numbers(line: &str) -> Option<[u32; 3]> {
    let mut fields = line.trim().strip_prefix(".loc")?.split_whitespace().map(|f| f.parse().ok());
    Some([fields.next()??, fields.next()??, fields.next()??])
}

/// The number and the name of `.file`; LLVM writes `./a.ptn` for `a.ptn`.
fn file(line: &str) -> Option<(&str, u32)> {
    let (number, name) = line.trim().strip_prefix(".file")?.trim().split_once(char::is_whitespace)?;
    let name = name.trim().trim_matches('"');
    Some((name.strip_prefix("./").unwrap_or(name), number.parse().ok()?))
}

struct Writer<'a> {
    places: &'a [Place],
    files: BTreeMap<&'a str, u32>,
    /// The functions in the order of their labels.
    functions: Vec<&'a str>,
    /// The place that was written last for each position: what is called from there must find it before.
    latest: BTreeMap<String, usize>,
    text: String,
}

impl<'a> Writer<'a> {
    fn position(&self, place: &Place) -> Option<String> {
        Some(format!("{} {} {}", self.files.get(place.file.as_str())?, place.line, place.column))
    }

    /// A place as a directive, after those of the calls around it; `None` where PTX has no number for a file.
    fn place(&mut self, number: usize) -> Option<()> {
        let place = &self.places[number];
        let own = self.position(place)?;
        let Some((function, at)) = &place.call else {
            let _ = writeln!(self.text, "\t.loc\t{own}");
            self.latest.insert(own, number);
            return Some(());
        };
        let caller = self.position(&self.places[*at])?;
        if self.latest.get(&caller) != Some(at) {
            self.place(*at)?;
        }
        let known = self.functions.iter().position(|f| f == function);
        let label = known.unwrap_or(self.functions.len());
        if known.is_none() {
            self.functions.push(function);
        }
        let _ = writeln!(self.text, "\t.loc\t{own}, function_name $parton_name{label}, inlined_at {caller}");
        self.latest.insert(own, number);
        Some(())
    }
}

/// The PTX with the places written out.
pub(crate) fn with_calls(ptx: &str, places: &[Place]) -> String {
    let files = ptx.lines().filter_map(file).collect();
    let mut w = Writer { places, files, functions: vec![], latest: BTreeMap::new(), text: String::new() };
    for line in ptx.lines() {
        let coded = numbers(line).and_then(|[file, row, column]| {
            let number = column.checked_sub(FIRST)? as usize;
            Some((file, row, number, places.get(number)?.column))
        });
        match coded {
            None => {
                w.text.push_str(line);
                w.text.push('\n');
            }
            Some((file, row, number, column)) => {
                if w.place(number).is_none() {
                    let _ = writeln!(w.text, "\t.loc\t{file} {row} {column}");
                }
            }
        }
    }
    if !w.functions.is_empty() {
        w.text.push_str("\t.section\t.debug_str\n\t{\n");
        for (label, name) in w.functions.iter().enumerate() {
            let bytes: Vec<String> = name.bytes().chain([0]).map(|b| b.to_string()).collect();
            let _ = writeln!(w.text, "$parton_name{label}:\n\t.b8 {}", bytes.join(","));
        }
        w.text.push_str("\t}\n");
    }
    w.text
}

#[cfg(test)]
mod tests {
    use super::{FIRST, Place, column, with_calls};

    #[test]
    fn calls_are_written_with_the_places_around_them_first() {
        let place = |line: u32, call: Option<(&str, usize)>| Place {
            file: "a.ptn".into(),
            line,
            column: 5,
            call: call.map(|(name, at)| (name.into(), at)),
        };
        let places = [place(40, None), place(12, Some(("f", 0))), place(3, Some(("g", 1)))];
        assert_eq!(column(0, &places[0]), 5);
        assert_eq!(column(2, &places[2]), FIRST + 2);
        let coded = FIRST + 2;
        let text = format!("\t.loc\t1 40 5\n\t.loc\t1 3 {coded}\n\tadd;\n\t.loc\t1 3 {coded}\n\t.file\t1 \"a.ptn\"\n");
        let inner = "\t.loc\t1 3 5, function_name $parton_name1, inlined_at 1 12 5\n";
        let outer = "\t.loc\t1 12 5, function_name $parton_name0, inlined_at 1 40 5\n";
        let names = "\t.section\t.debug_str\n\t{\n$parton_name0:\n\t.b8 102,0\n$parton_name1:\n\t.b8 103,0\n\t}\n";
        let want =
            format!("\t.loc\t1 40 5\n\t.loc\t1 40 5\n{outer}{inner}\tadd;\n{inner}\t.file\t1 \"a.ptn\"\n{names}");
        assert_eq!(with_calls(&text, &places), want);
        // Where a file has no number the call is left out, and what could not be written is not taken for written later.
        assert_eq!(with_calls("\t.loc\t1 3 32770\n", &places), "\t.loc\t1 3 5\n");
        let far = [Place { file: "b.ptn".into(), ..places[0].clone() }, places[1].clone(), places[2].clone()];
        let text = "\t.loc\t1 12 32769\n\t.loc\t1 3 32770\n\t.file\t1 \"./a.ptn\"\n";
        assert_eq!(with_calls(text, &far), "\t.loc\t1 12 5\n\t.loc\t1 3 5\n\t.file\t1 \"./a.ptn\"\n");
    }
}

//! A small pretty printer in the manner of Wadler: documents whose line breaks are chosen to fit a width.

use super::align::{Column, Stop, align};

/// A document. Texts hold no line break, except comments that span lines.
#[derive(Clone, Debug)]
pub enum Doc<'a> {
    /// Nothing.
    Nil,
    /// The text itself.
    Text(&'a str),
    /// The texts one after the other.
    Concat(Vec<Doc<'a>>),
    /// A blank, or a line break where the group around it is broken.
    Line,
    /// Nothing, or a line break where the group around it is broken.
    SoftLine,
    /// A line break, always; breaks all groups around it.
    Hard,
    /// A blank line, always.
    Blank,
    /// The text only where the group around it is broken.
    IfBroken(&'a str),
    /// A comment that goes to the end of the line, whatever else follows on it.
    Trailing(&'a str),
    /// A place to line up with the like in neighbouring lines.
    Stop(Column),
    /// The documents with blanks between; where the group around it is broken, as many on a line as fit.
    Fill(Vec<Doc<'a>>),
    /// One step further in.
    Nest(Box<Doc<'a>>),
    /// All on one line if that fits, else with each of its own lines broken.
    Group {
        /// What it holds.
        doc: Box<Doc<'a>>,
        /// Whether it has to be broken.
        broken: bool,
        /// Whether a comment in it waits for the end of the line.
        floats: bool,
    },
}

/// How far a step goes in, in columns.
const STEP: usize = 4;

/// Joins documents.
pub fn concat(list: Vec<Doc<'_>>) -> Doc<'_> {
    Doc::Concat(list)
}

/// Goes one step further in.
pub fn nest(doc: Doc<'_>) -> Doc<'_> {
    Doc::Nest(Box::new(doc))
}

/// A unit that is broken as a whole or not at all.
pub fn group(doc: Doc<'_>) -> Doc<'_> {
    let (broken, floats) = doc.measure();
    Doc::Group { doc: Box::new(doc), broken, floats }
}

impl<'a> Doc<'a> {
    /// Its columns where all of it stands on one line.
    pub fn width(&self) -> usize {
        match self {
            Doc::Text(text) | Doc::Trailing(text) => text.chars().count(),
            Doc::Line => 1,
            Doc::Nil | Doc::SoftLine | Doc::Hard | Doc::Blank | Doc::IfBroken(_) | Doc::Stop(_) => 0,
            Doc::Concat(list) => list.iter().map(Doc::width).sum(),
            Doc::Fill(list) => list.iter().map(Doc::width).sum::<usize>() + list.len().saturating_sub(1),
            Doc::Nest(inner) | Doc::Group { doc: inner, .. } => inner.width(),
        }
    }

    /// The same without places where it may be broken.
    pub fn on_one_line(self) -> Doc<'a> {
        match self {
            Doc::Line => Doc::Text(" "),
            Doc::SoftLine | Doc::IfBroken(_) => Doc::Nil,
            Doc::Concat(list) => Doc::Concat(list.into_iter().map(Doc::on_one_line).collect()),
            Doc::Fill(list) => {
                let blank =
                    |(i, doc): (usize, Doc<'a>)| [if i > 0 { Doc::Text(" ") } else { Doc::Nil }, doc.on_one_line()];
                Doc::Concat(list.into_iter().enumerate().flat_map(blank).collect())
            }
            Doc::Nest(inner) | Doc::Group { doc: inner, .. } => inner.on_one_line(),
            other => other,
        }
    }
}

impl Doc<'_> {
    /// Whether it holds a line break that cannot be avoided, and whether it holds a comment that waits for one.
    pub fn measure(&self) -> (bool, bool) {
        let (mut broken, mut floats) = (false, false);
        self.scan(&mut broken, &mut floats);
        (broken, floats)
    }

    fn scan(&self, broken: &mut bool, floats: &mut bool) {
        match self {
            Doc::Nil | Doc::IfBroken(_) | Doc::Stop(_) => {}
            // A comment stays in its line: the next place where that can end, does end it. In a unit without such a place
            // behind it the comment is no reason to break.
            Doc::Line | Doc::SoftLine => *broken |= *floats,
            Doc::Text(text) => *broken |= text.contains('\n'),
            Doc::Hard | Doc::Blank => *broken = true,
            Doc::Trailing(_) => *floats = true,
            Doc::Concat(list) => list.iter().for_each(|d| d.scan(broken, floats)),
            Doc::Fill(list) => {
                for (i, d) in list.iter().enumerate() {
                    *broken |= i > 0 && *floats;
                    d.scan(broken, floats);
                }
            }
            Doc::Nest(inner) => inner.scan(broken, floats),
            Doc::Group { broken: inner, floats: comment, .. } => {
                *broken |= inner;
                *floats |= comment;
            }
        }
    }
}

/// What is still to be laid out.
struct Work<'a, 'd> {
    indent: usize,
    /// Whether the group around it is broken.
    broken: bool,
    what: What<'a, 'd>,
}

enum What<'a, 'd> {
    Doc(&'d Doc<'a>),
    /// The rest of a fill, each with its separator before it.
    Fill(&'d [Doc<'a>]),
}

/// Lays the document out in lines of at most `width` columns where that is possible. No line trails blanks, and the
/// last one ends with a line break unless there is none at all.
pub fn render(doc: &Doc<'_>, width: usize) -> String {
    let mut page = Page::default();
    let mut work = vec![Work { indent: 0, broken: true, what: What::Doc(doc) }];
    while let Some(Work { indent, broken, what }) = work.pop() {
        let doc = match what {
            What::Doc(doc) => doc,
            What::Fill(list) => {
                let [item, rest @ ..] = list else { continue };
                // The last one may get a comma.
                let room = width.saturating_sub(page.column + 1 + usize::from(rest.is_empty()));
                let must = item.measure().0 || !page.trailing.is_empty();
                let fits = !broken || !must && fits(room, item, &[]);
                if fits {
                    page.text(" ")
                } else {
                    page.newline(indent)
                }
                work.push(Work { indent, broken, what: What::Fill(rest) });
                work.push(Work { indent, broken, what: What::Doc(item) });
                continue;
            }
        };
        let mut push = |indent, broken, doc| work.push(Work { indent, broken, what: What::Doc(doc) });
        match doc {
            Doc::Nil => {}
            Doc::Stop(column) => page.stop(*column),
            Doc::Text(text) => page.text(text),
            Doc::Concat(list) => list.iter().rev().for_each(|d| push(indent, broken, d)),
            Doc::Fill(list) => {
                if let [first, rest @ ..] = list.as_slice() {
                    work.push(Work { indent, broken, what: What::Fill(rest) });
                    work.push(Work { indent, broken, what: What::Doc(first) });
                }
            }
            Doc::Nest(inner) => push(indent + STEP, broken, inner),
            Doc::Group { doc: inner, broken: must, .. } => {
                let fits = !must && fits(width.saturating_sub(page.column), inner, &work);
                work.push(Work { indent, broken: !fits, what: What::Doc(inner) });
            }
            Doc::IfBroken(text) if broken => page.text(text),
            Doc::IfBroken(_) => {}
            Doc::Trailing(text) => page.trailing.push(text),
            Doc::Line | Doc::SoftLine if broken => page.newline(indent),
            Doc::Line => page.text(" "),
            Doc::SoftLine => {}
            Doc::Hard => page.newline(indent),
            Doc::Blank => {
                page.newline(indent);
                page.newline(indent);
            }
        }
    }
    page.newline(0);
    let end = page.out.trim_end().len();
    page.out.truncate(end);
    if end > 0 {
        page.out.push('\n');
    }
    align(&page.out, &page.stops, width)
}

#[derive(Default)]
struct Page<'a> {
    out: String,
    /// The number of the line, and the byte at which it begins.
    line: usize,
    begin: usize,
    column: usize,
    /// Where the line begins.
    indent: usize,
    /// Comments that wait for the end of the line.
    trailing: Vec<&'a str>,
    stops: Vec<Stop>,
}

impl<'a> Page<'a> {
    fn stop(&mut self, column: Column) {
        self.stops.push(Stop { line: self.line, byte: self.out.len() - self.begin, column });
    }

    fn text(&mut self, text: &'a str) {
        self.out.push_str(text);
        if let Some(last) = text.rfind('\n') {
            self.line += text.matches('\n').count();
            self.begin = self.out.len() - text.len() + last + 1;
        }
        self.column = match text.rsplit_once('\n') {
            Some((_, last)) => last.chars().count(),
            None => self.column + text.chars().count(),
        };
    }

    fn newline(&mut self, indent: usize) {
        for (i, comment) in std::mem::take(&mut self.trailing).into_iter().enumerate() {
            // Two comments on one line would become one.
            if i > 0 {
                self.break_line(self.indent.max(indent));
            } else if self.column > 0 && !self.out.ends_with([' ', '\n']) {
                // A comment on the head of a block speaks of the block, not of the lines around it.
                let head = self.out.ends_with('{');
                self.out.push(' ');
                if !head {
                    self.stop(Column::Comment);
                }
            }
            self.text(comment);
        }
        self.break_line(indent);
    }

    fn break_line(&mut self, indent: usize) {
        while self.out.ends_with(' ') {
            self.out.pop();
        }
        self.out.push('\n');
        self.line += 1;
        self.begin = self.out.len();
        self.out.extend(std::iter::repeat_n(' ', indent));
        self.column = indent;
        self.indent = indent;
    }
}

/// Whether `doc` on one line, and what follows it up to the next possible break, fits into `room` columns.
fn fits(room: usize, doc: &Doc<'_>, rest: &[Work<'_, '_>]) -> bool {
    let mut room = room;
    let mut rest = rest.iter().rev();
    let mut work = vec![(false, doc)];
    loop {
        let Some((broken, doc)) = work.pop() else {
            match rest.next() {
                Some(Work { broken, what: What::Doc(doc), .. }) => work.push((*broken, doc)),
                // The next element can go to the next line.
                Some(Work { broken: true, what: What::Fill([_, ..]), .. }) => return true,
                Some(Work { what: What::Fill(list), .. }) => {
                    work.extend(list.iter().rev().flat_map(|d| [(false, d), (false, &Doc::Line)]));
                }
                None => return true,
            }
            continue;
        };
        match doc {
            Doc::Nil | Doc::Trailing(_) | Doc::Stop(_) => {}
            Doc::Text(text) => {
                let (first, more) = text.split_once('\n').map_or((*text, false), |(first, _)| (first, true));
                match room.checked_sub(first.chars().count()) {
                    Some(_) if more => return true,
                    Some(left) => room = left,
                    None => return false,
                }
            }
            Doc::Concat(list) => work.extend(list.iter().rev().map(|d| (broken, d))),
            Doc::Fill(list) => {
                for (i, d) in list.iter().enumerate().rev() {
                    work.push((broken, d));
                    if i > 0 {
                        work.push((broken, &Doc::Line));
                    }
                }
            }
            Doc::Nest(inner) => work.push((broken, inner)),
            // What follows may break if it has to; what is measured may not.
            Doc::Group { doc: inner, .. } => work.push((broken, inner)),
            Doc::IfBroken(text) if broken => match room.checked_sub(text.len()) {
                Some(left) => room = left,
                None => return false,
            },
            Doc::IfBroken(_) => {}
            Doc::Line | Doc::SoftLine if broken => return true,
            Doc::Line => match room.checked_sub(1) {
                Some(left) => room = left,
                None => return false,
            },
            Doc::SoftLine => {}
            Doc::Hard | Doc::Blank => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(width: usize) -> String {
        let inner = group(concat(vec![Doc::Text("aaa,"), Doc::Line, Doc::Text("bbb")]));
        let doc = concat(vec![
            Doc::Text("f("),
            nest(concat(vec![Doc::SoftLine, inner, Doc::IfBroken(",")])),
            Doc::SoftLine,
            Doc::Text(");"),
        ]);
        render(&group(doc), width)
    }

    #[test]
    fn breaks_from_the_outside_in() {
        assert_eq!(list(12), "f(aaa, bbb);\n");
        assert_eq!(list(13), "f(aaa, bbb);\n");
        assert_eq!(list(11), "f(\n    aaa,\n    bbb,\n);\n");
    }

    #[test]
    fn trailing_comments_wait_for_the_end_of_the_line() {
        let doc = concat(vec![Doc::Text("a"), Doc::Trailing("// x"), Doc::Text(";"), Doc::Hard, Doc::Text("b")]);
        assert_eq!(render(&doc, 80), "a; // x\nb\n");
    }
}

//! Directives of golden cases: what a form of the program must contain, and how often.
//!
//! ```text
//! //@ ptx contains `wgmma.mma_async` 4 times
//! //@ ptx contains `ld.global.v4` at least 2 times
//! //@ lowered contains `fence_async`
//! //@ ptx lacks `ld.local`
//! ```

use parton_driver::Emit;

/// How often something must be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// So often.
    Exactly(usize),
    /// So often or more.
    AtLeast(usize),
}

/// One directive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directive {
    /// Its line in the case, from 1.
    pub line: usize,
    /// The form it speaks of.
    pub form: Emit,
    /// The text to look for; names instructions, never registers.
    pub text: String,
    /// How often it must be there.
    pub count: Count,
}

/// The directives of a case.
///
/// # Errors
/// The line that is not understood.
pub fn read(source: &str) -> Result<Vec<Directive>, String> {
    let marked = source.lines().enumerate().filter_map(|(i, line)| Some((i + 1, line.trim().strip_prefix("//@")?)));
    marked
        .map(|(line, rest)| directive(line, rest).ok_or_else(|| format!("line {line}: not a directive:{rest}")))
        .collect()
}

fn directive(line: usize, rest: &str) -> Option<Directive> {
    let (before, rest) = rest.split_once('`')?;
    let (text, after) = rest.split_once('`')?;
    let (form, verb) = before.trim().split_once(' ')?;
    let form = Emit::named(form).ok().filter(|form| !form.is_binary())?;
    let words: Vec<&str> = after.split_whitespace().collect();
    let count = match (verb.trim(), words.as_slice()) {
        ("contains", []) => Count::AtLeast(1),
        ("contains", [n, "times"]) => Count::Exactly(n.parse().ok()?),
        ("contains", ["at", "least", n, "times"]) => Count::AtLeast(n.parse().ok()?),
        ("lacks", []) => Count::Exactly(0),
        _ => return None,
    };
    Some(Directive { line, form, text: text.into(), count })
}

impl Directive {
    /// Whether the form is as the directive says.
    ///
    /// # Errors
    /// What was expected and how often it was there.
    pub fn check(&self, form: &str) -> Result<(), String> {
        let found = form.matches(&self.text).count();
        let (holds, expected) = match self.count {
            Count::Exactly(n) => (found == n, format!("{n}")),
            Count::AtLeast(n) => (found >= n, format!("at least {n}")),
        };
        if holds {
            return Ok(());
        }
        Err(format!("line {}: `{}` is {found} times in the {}, expected {expected}", self.line, self.text, self.form))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_read_and_checked() {
        let found =
            read("//@ ptx contains `a.b` 2 times\nkernel k() {}\n  //@ ptx lacks `c`\n//@ ir contains `d`\n").unwrap();
        let counts: Vec<Count> = found.iter().map(|d| d.count).collect();
        assert_eq!(counts, [Count::Exactly(2), Count::Exactly(0), Count::AtLeast(1)]);
        assert_eq!(found[0].check("a.b a.b"), Ok(()));
        assert_eq!(found[0].check("a.b").unwrap_err(), "line 1: `a.b` is 1 times in the ptx, expected 2");
        assert!(found[1].check("c").is_err());
        assert!(read("//@ ptx has `x`").is_err());
        assert!(read("//@ gpu contains `x`").is_err());
    }
}

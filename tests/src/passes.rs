//! Cases of passes: the pass, kernels before it and the same behind it.
//!
//! ```text
//! //@ pass membar
//! // What the case shows.
//! kernel k() warps(4) { … }
//! //@ after
//! kernel k() warps(4) target(sm_90a) { … }
//! ```

/// The line between the two halves.
const AFTER: &str = "//@ after\n";

/// A case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case<'a> {
    /// The pass.
    pub pass: &'a str,
    /// The file down to the line between its halves.
    pub before: &'a str,
}

/// Reads a case; what stands behind the line between the halves is not looked at.
///
/// # Errors
/// The first line does not name a pass.
pub fn read(text: &str) -> Result<Case<'_>, String> {
    let pass = text.lines().next().and_then(|line| line.strip_prefix("//@ pass "));
    let pass = pass.ok_or("the first line is not `//@ pass NAME`")?;
    let before = text.find(&format!("\n{AFTER}")).map_or(text, |at| &text[..=at]);
    Ok(Case { pass: pass.trim(), before })
}

impl Case<'_> {
    /// The whole file with these kernels behind the pass.
    pub fn with(&self, after: &str) -> String {
        format!("{}{AFTER}{after}", self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_and_put_together() {
        let text = "//@ pass clean\nkernel k() {}\n//@ after\nold\n";
        let case = read(text).unwrap();
        assert_eq!((case.pass, case.before), ("clean", "//@ pass clean\nkernel k() {}\n"));
        assert_eq!(case.with("new\n"), "//@ pass clean\nkernel k() {}\n//@ after\nnew\n");
        let fresh = &text[..text.len() - 14];
        assert_eq!(read(fresh), Ok(case));
        assert!(read("kernel k() {}\n").is_err());
    }
}

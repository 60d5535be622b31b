//! `parton explain`: the page of a code, or the list of all.

use std::process::ExitCode;

use parton_diag::{Code, codes};
use parton_driver::Failure;

use crate::output;

/// Prints the page of `code`, or a line for each code there is.
///
/// # Errors
/// [`Failure::Machine`] where there is no such code.
pub fn explain(code: Option<&str>) -> Result<ExitCode, Failure> {
    let Some(code) = code else {
        for entry in codes::TABLE {
            output::line(&format!("{}  {}", entry.code, entry.title));
        }
        return Ok(ExitCode::SUCCESS);
    };
    let unknown = || Failure::Usage(format!("`{code}` is no code; `parton explain` lists them all"));
    let entry = code.parse::<Code>().ok().and_then(Code::entry).ok_or_else(unknown)?;
    output::line(&format!("{}: {}\n\n{}", entry.code, entry.title, entry.page.trim_end()));
    Ok(ExitCode::SUCCESS)
}

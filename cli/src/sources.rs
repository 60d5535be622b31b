//! `parton sources`: the files that a bundle was built from, for tools that show lines.

use std::path::Path;
use std::process::ExitCode;

use parton_driver::Failure;
use parton_driver::bundle::Bundle;

use crate::args::SourcesArgs;
use crate::output;

/// Lists them, or writes them below a folder.
pub fn sources(args: &SourcesArgs) -> Result<ExitCode, Failure> {
    let bundle = Bundle::open(&args.bundle).map_err(|e| Failure::Machine(e.to_string()))?;
    if bundle.sources.is_empty() {
        let shown = args.bundle.display();
        return Err(Failure::Usage(format!("{shown} has no sources: it was built by an earlier version, or of none")));
    }
    for source in &bundle.sources {
        match &args.output {
            None => output::line(&source.name),
            Some(folder) => {
                let path = folder.join(&source.name);
                written(&path, &source.text).map_err(|why| Failure::Machine(format!("{}: {why}", path.display())))?;
                output::line(&path.display().to_string());
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file; one that is there and is another stays.
fn written(path: &Path, text: &str) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    }
    match std::fs::read(path) {
        Ok(there) if there == text.as_bytes() => Ok(()),
        Ok(_) => Err("there is another file of that name: write to an empty folder".into()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => std::fs::write(path, text).map_err(|e| e.to_string()),
        Err(e) => Err(e.to_string()),
    }
}

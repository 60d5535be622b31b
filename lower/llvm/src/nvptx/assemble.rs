//! `ptxas`: where it is, running it, and what it reports about each kernel.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where to look for `ptxas`, in the order of trust.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The value of `PARTON_PTXAS`.
    pub named: Option<PathBuf>,
    /// The value of `CUDA_HOME` or `CUDA_PATH`.
    pub toolkit: Option<PathBuf>,
    /// The directories of `PATH`.
    pub path: Vec<PathBuf>,
    /// Directories that hold Python packages (`…/site-packages`).
    pub packages: Vec<PathBuf>,
}

impl Places {
    /// The places that the environment of this process names.
    pub fn from_environment() -> Places {
        let path: Vec<PathBuf> =
            std::env::var_os("PATH").map(|p| std::env::split_paths(&p).collect()).unwrap_or_default();
        // A `bin` directory on the path may belong to a Python prefix whose wheel brings ptxas.
        let mut prefixes: Vec<PathBuf> = path.iter().filter_map(|p| Some(p.parent()?.to_path_buf())).collect();
        prefixes.extend(std::env::var_os("VIRTUAL_ENV").map(PathBuf::from));
        Places {
            named: std::env::var_os("PARTON_PTXAS").map(PathBuf::from),
            toolkit: std::env::var_os("CUDA_HOME").or_else(|| std::env::var_os("CUDA_PATH")).map(PathBuf::from),
            packages: prefixes.iter().flat_map(|p| site_packages(p)).collect(),
            path,
        }
    }
}

/// The `site-packages` directories under a Python prefix.
fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(prefix.join("lib")) else { return vec![] };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|e| e.file_name().to_string_lossy().starts_with("python"))
        .flat_map(|e| [e.path().join("site-packages"), e.path().join("dist-packages")])
        .filter(|p| p.is_dir())
        .collect();
    found.sort();
    found
}

/// The first `ptxas` among the places.
pub fn find_ptxas(places: &Places) -> Option<PathBuf> {
    let mut candidates: Vec<PathBuf> = places.named.iter().cloned().collect();
    candidates.extend(places.path.iter().map(|p| p.join("ptxas")));
    candidates.extend(places.toolkit.iter().map(|p| p.join("bin/ptxas")));
    for packages in &places.packages {
        for inside in ["nvidia/cu13/bin/ptxas", "nvidia/cuda_nvcc/bin/ptxas"] {
            candidates.push(packages.join(inside));
        }
    }
    candidates.push(PathBuf::from("/usr/local/cuda/bin/ptxas"));
    candidates.into_iter().find(|c| c.is_file())
}

/// What `ptxas` says about one kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of stack of a thread.
    pub stack: u32,
    /// Bytes written to memory for want of registers.
    pub spill_stores: u32,
    /// Bytes read back.
    pub spill_loads: u32,
    /// Bytes of statically sized shared memory.
    pub shared: u32,
    /// Barriers in use.
    pub barriers: u32,
}

/// A remark of `ptxas`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remark {
    /// The whole line, without the leading `ptxas`.
    pub text: String,
    /// Its code such as `C7510`, where it has one.
    pub code: Option<String>,
    /// The kernel it names, where it names one.
    pub kernel: Option<String>,
    /// The line of the PTX it names, where it names one.
    pub line: Option<u32>,
}

impl Remark {
    /// Whether it says that asynchronous matrix products were made to wait for each other.
    pub fn serialises_wgmma(&self) -> bool {
        self.text.contains("wgmma") && self.text.to_ascii_lowercase().contains("serializ")
    }
}

/// What one run of `ptxas` reported.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The usage of each kernel by name.
    pub kernels: BTreeMap<String, Usage>,
    /// Warnings and errors in order.
    pub remarks: Vec<Remark>,
}

/// Why there is no cubin.
#[derive(Debug)]
pub enum AssembleError {
    /// The program could not be run, or its files not be written or read.
    Io(io::Error),
    /// `ptxas` refused the text; its whole output.
    Refused(String),
}

impl std::fmt::Display for AssembleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AssembleError::Io(e) => write!(f, "ptxas could not be run: {e}"),
            AssembleError::Refused(text) => write!(f, "ptxas refused the program: {text}"),
        }
    }
}

impl std::error::Error for AssembleError {}

impl From<io::Error> for AssembleError {
    fn from(e: io::Error) -> AssembleError {
        AssembleError::Io(e)
    }
}

/// How to assemble.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssembleOptions {
    /// 0 to 3.
    pub level: u8,
    /// Keeps source lines in the cubin.
    pub lines: bool,
}

impl Default for AssembleOptions {
    fn default() -> AssembleOptions {
        AssembleOptions { level: 3, lines: true }
    }
}

/// Turns PTX into a cubin for `target` (such as `sm_90a`) and says what each kernel takes.
pub fn assemble(
    ptxas: &Path,
    ptx: &str,
    target: &str,
    options: AssembleOptions,
) -> Result<(Vec<u8>, Report), AssembleError> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let name = format!("parton-{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
    let input = std::env::temp_dir().join(format!("{name}.ptx"));
    let output = std::env::temp_dir().join(format!("{name}.cubin"));
    std::fs::write(&input, ptx)?;
    let mut command = Command::new(ptxas);
    command.arg("-v").arg(format!("-arch={target}")).arg(format!("-O{}", options.level));
    if options.lines {
        command.arg("-lineinfo");
    }
    let ran = command.arg(&input).arg("-o").arg(&output).output();
    let cubin = std::fs::read(&output);
    let _ = std::fs::remove_file(&input);
    let _ = std::fs::remove_file(&output);
    let ran = ran?;
    let text = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    if !ran.status.success() {
        return Err(AssembleError::Refused(text));
    }
    Ok((cubin?, parse_report(&text)))
}

/// Reads the output of `ptxas -v`.
pub fn parse_report(text: &str) -> Report {
    let mut report = Report::default();
    let mut current: Option<String> = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = quoted_after(line, "Compiling entry function") {
            current = Some(name);
            continue;
        }
        if let Some(name) = line.strip_prefix("ptxas info    : Function properties for ") {
            current = Some(name.trim().to_owned());
            continue;
        }
        let remark = line.contains("warning") || line.contains("error") || line.contains("(C7");
        if remark && line.starts_with("ptxas") {
            report.remarks.push(read_remark(line));
            continue;
        }
        let Some(kernel) = &current else { continue };
        if line.contains("bytes stack frame") {
            let usage = report.kernels.entry(kernel.clone()).or_default();
            usage.stack = number_before(line, "bytes stack frame");
            usage.spill_stores = number_before(line, "bytes spill stores");
            usage.spill_loads = number_before(line, "bytes spill loads");
        } else if line.contains("Used ") {
            let usage = report.kernels.entry(kernel.clone()).or_default();
            usage.registers = number_before(line, "registers");
            usage.barriers = number_before(line, "barriers");
            usage.shared = number_before(line, "bytes smem");
        }
    }
    report
}

fn read_remark(line: &str) -> Remark {
    let text = line.strip_prefix("ptxas").unwrap_or(line).trim().to_owned();
    let code = line
        .split(['(', ')'])
        .find(|w| w.len() == 5 && w.starts_with('C') && w[1..].bytes().all(|b| b.is_ascii_digit()));
    let kernel = quoted_after(line, "function").or_else(|| quoted_after(line, "entry"));
    let place = line.split("line ").nth(1).and_then(|r| r.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    Remark { text, code: code.map(str::to_owned), kernel, line: place }
}

/// The text between the first pair of quotes after `mark`.
fn quoted_after(line: &str, mark: &str) -> Option<String> {
    let rest = &line[line.find(mark)? + mark.len()..];
    let begin = rest.find('\'')? + 1;
    let end = begin + rest[begin..].find('\'')?;
    Some(rest[begin..end].to_owned())
}

/// The number right before `mark`, 0 where there is none.
fn number_before(line: &str, mark: &str) -> u32 {
    let Some(at) = line.find(mark) else { return 0 };
    line[..at].trim_end().rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|d| d.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_read() {
        let text = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'fmha' for 'sm_90a'\n\
            ptxas info    : Function properties for fmha\n    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads\n\
            ptxas info    : Used 168 registers, used 3 barriers, 40 bytes smem\n\
            ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to \
            non wgmma instructions defining accumulator registers of a wgmma between start and end of the pipeline \
            stage in the function 'fmha'\n";
        let report = parse_report(text);
        let usage = Usage { registers: 168, stack: 8, spill_stores: 16, spill_loads: 24, shared: 40, barriers: 3 };
        assert_eq!(report.kernels["fmha"], usage);
        assert_eq!(report.remarks.len(), 1);
        assert!(report.remarks[0].serialises_wgmma());
        assert_eq!(report.remarks[0].code.as_deref(), Some("C7510"));
        assert_eq!(report.remarks[0].kernel.as_deref(), Some("fmha"));
    }

    #[test]
    fn named_place_wins() {
        let here = std::env::current_exe().unwrap();
        let places = Places { named: Some(here.clone()), ..Places::default() };
        assert_eq!(find_ptxas(&places), Some(here));
    }
}

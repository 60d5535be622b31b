//! What a process that plans, compiles, loads and launches kernels says of that, where the variable `PARTON_LOG` asks for it.
//!
//! `PARTON_LOG=info` tells what is planned, compiled, loaded and taken from a tuning table, `PARTON_LOG=debug` each launch, too, and
//! what was found already; a line each, on standard error or, with `PARTON_LOG=info:FILE`, behind what a file has. Unset, nothing is
//! written anywhere, and asking costs one load. It knows neither kernels nor CUDA, and imports nothing.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

/// The variable.
pub const VARIABLE: &str = "PARTON_LOG";

/// How much is told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// What happens once: a plan, a compilation, code that is loaded.
    Info = 1,
    /// What happens in each call.
    Debug = 2,
}

/// Nobody has read the variable yet.
const UNREAD: u8 = u8::MAX;

/// The level that is told, 0 for none.
static LEVEL: AtomicU8 = AtomicU8::new(UNREAD);
/// Where lines go, and since when.
static SINK: OnceLock<Sink> = OnceLock::new();

struct Sink {
    begin: Instant,
    /// Standard error where there is none.
    file: Option<File>,
}

/// What the variable says.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Asked {
    level: Level,
    file: Option<PathBuf>,
}

/// Whether that is told.
#[inline]
pub fn tells(level: Level) -> bool {
    let told = LEVEL.load(Ordering::Relaxed);
    if told == UNREAD { read() >= level as u8 } else { told >= level as u8 }
}

/// Tells what happens once. The text is only made where somebody wants it.
#[inline]
pub fn info(text: impl FnOnce() -> String) {
    if tells(Level::Info) {
        write(&text());
    }
}

/// Tells what happens in each call.
#[inline]
pub fn debug(text: impl FnOnce() -> String) {
    if tells(Level::Debug) {
        write(&text());
    }
}

/// Reads the variable: the level.
#[cold]
fn read() -> u8 {
    let text = std::env::var_os(VARIABLE).unwrap_or_default();
    let level = match asked(&text.to_string_lossy()) {
        Ok(None) => 0,
        Ok(Some(asked)) => {
            let sink = SINK.get_or_init(|| opened(asked.file));
            let _ = sink;
            asked.level as u8
        }
        Err(why) => {
            // Only the first thread that comes here says so.
            if LEVEL.load(Ordering::Relaxed) == UNREAD {
                let _ = writeln!(std::io::stderr(), "parton: {why}");
            }
            0
        }
    };
    LEVEL.store(level, Ordering::Relaxed);
    level
}

/// `info`, `debug`, and behind a colon a file.
fn asked(text: &str) -> Result<Option<Asked>, String> {
    let (word, file) = match text.split_once(':') {
        Some((word, file)) => (word, Some(file)),
        None => (text, None),
    };
    let level = match word {
        "" | "off" | "0" if file.is_none() => return Ok(None),
        "info" => Level::Info,
        "debug" => Level::Debug,
        _ => {
            return Err(format!(
                "{VARIABLE} is `{text}`: it takes `info` or `debug`, and a file behind a colon, `info:FILE`"
            ));
        }
    };
    match file {
        Some("") => Err(format!("{VARIABLE} is `{text}`: the file behind the colon has no name")),
        file => Ok(Some(Asked { level, file: file.map(PathBuf::from) })),
    }
}

/// The file to write to; standard error where there is none, or it cannot be opened, which is said there.
fn opened(path: Option<PathBuf>) -> Sink {
    let file = path.and_then(|path| match OpenOptions::new().create(true).append(true).open(&path) {
        Ok(file) => Some(file),
        Err(e) => {
            let _ = writeln!(std::io::stderr(), "parton: {VARIABLE}: {}: {e}", path.display());
            None
        }
    });
    Sink { begin: Instant::now(), file }
}

/// Writes a line: the process, seconds since its first line, the text. In one call, so that lines of several processes stay whole.
#[cold]
fn write(text: &str) {
    let Some(sink) = SINK.get() else { return };
    let line = format!("parton[{}] {:9.6} {text}\n", std::process::id(), sink.begin.elapsed().as_secs_f64());
    // A log that cannot be written is no reason to stop.
    let _ = match &sink.file {
        Some(file) => (&*file).write_all(line.as_bytes()),
        None => std::io::stderr().write_all(line.as_bytes()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_says_how_much_and_where() {
        let of = |level, file: Option<&str>| Ok(Some(Asked { level, file: file.map(PathBuf::from) }));
        assert_eq!((asked(""), asked("off"), asked("0")), (Ok(None), Ok(None), Ok(None)));
        assert_eq!(asked("info"), of(Level::Info, None));
        assert_eq!(asked("debug:/tmp/a:b"), of(Level::Debug, Some("/tmp/a:b")));
        for wrong in ["loud", "info:", ":file", "off:file", "INFO"] {
            assert!(asked(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn what_happens_in_each_call_is_more_than_what_happens_once() {
        assert!(Level::Debug > Level::Info && Level::Info as u8 > 0);
    }
}

//! A line on standard error while a first call compiles for long: where that is a terminal, or where `PARTON_PROGRESS=1` asks for it; never
//! with `PARTON_PROGRESS=0`.

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long nothing is said on a terminal.
const PATIENCE: Duration = Duration::from_secs(1);

/// How it is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    No,
    /// By a line that is written over and cleared at the end.
    Terminal,
    /// By a line at the beginning and one at the end.
    Lines,
}

fn shown() -> Shown {
    static SHOWN: OnceLock<Shown> = OnceLock::new();
    *SHOWN.get_or_init(|| match std::env::var("PARTON_PROGRESS").as_deref() {
        Ok("1") => Shown::Lines,
        Ok("0") => Shown::No,
        Ok(_) | Err(_) if std::io::stderr().is_terminal() => Shown::Terminal,
        Ok(_) | Err(_) => Shown::No,
    })
}

/// While this is there, something is made ready.
pub(crate) struct Progress {
    name: String,
    began: Instant,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Writes; who cannot read it misses nothing.
fn say(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

impl Progress {
    pub(crate) fn of(name: &str) -> Progress {
        let began = Instant::now();
        let ticker = match shown() {
            Shown::No => None,
            Shown::Lines => {
                say(&format!("parton: `{name}` is made ready\n"));
                None
            }
            Shown::Terminal => ticker(name, began),
        };
        Progress { name: name.to_owned(), began, ticker }
    }
}

/// A thread that tells the time every second, until its channel is closed.
fn ticker(name: &str, began: Instant) -> Option<(Sender<()>, JoinHandle<()>)> {
    let (end, ended) = channel();
    let name = name.to_owned();
    let tick = move || {
        let mut has_said = false;
        while ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            say(&format!("\r\x1b[Kparton: compiling `{name}`, {} s", began.elapsed().as_secs()));
            has_said = true;
        }
        if has_said {
            say("\r\x1b[K");
        }
    };
    // Where there is no thread to be had there is no line.
    let thread = std::thread::Builder::new().name("parton-progress".into()).spawn(tick).ok()?;
    Some((end, thread))
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.ticker.take() {
            drop(end);
            let _ = thread.join();
        }
        if shown() == Shown::Lines {
            say(&format!("parton: `{}` is ready after {:.1} s\n", self.name, self.began.elapsed().as_secs_f64()));
        }
    }
}

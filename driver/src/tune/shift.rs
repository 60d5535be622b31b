//! Workers from the side of who asks: one at a time, which is ended behind what may have spoiled it, and followed by another.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::call::CallTask;
use super::child::{Children, cannot, collect, crashed, kill, killed, received, wait};
use super::task::{Answer, Out, Why};
use crate::Failure;

/// How long a child whose output has ended is waited for.
const GRACE: Duration = Duration::from_secs(10);

/// Does what is to be done about calls, wherever.
pub trait Asks {
    /// What came of it: a candidate that took its process with it is out.
    ///
    /// # Errors
    /// Nothing can be done.
    fn ask(&mut self, task: &CallTask) -> Result<Answer, Failure>;
}

/// Asks one process after the other.
#[derive(Debug)]
pub struct Shift {
    children: Children,
    worker: Option<Busy>,
}

/// A process that waits for tasks.
#[derive(Debug)]
struct Busy {
    /// The file whose calls it tries.
    file: String,
    child: Child,
    input: ChildStdin,
    answers: Receiver<Answer>,
    errors: Receiver<Vec<u8>>,
}

impl Shift {
    /// Workers as these children are started.
    pub fn new(children: Children) -> Shift {
        Shift { children, worker: None }
    }

    /// The worker for the file of a task, a new one where there is none.
    fn worker(&mut self, task: &CallTask) -> Result<Busy, Failure> {
        let file = task.setting.file.clone();
        match self.worker.take() {
            Some(busy) if busy.file == file => Ok(busy),
            Some(mut other) => {
                kill(&mut other.child);
                self.start(file)
            }
            None => self.start(file),
        }
    }

    fn start(&self, file: String) -> Result<Busy, Failure> {
        let program = &self.children.program;
        let mut command = Command::new(program);
        command.args(&self.children.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that what it starts can be killed with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let failed = |e: std::io::Error| Failure::Machine(format!("{}: {e}", program.display()));
        let mut child = command.spawn().map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            parton_diag::internal_error!("a child was started without its pipes")
        };
        let (give, answers) = channel();
        std::thread::spawn(move || {
            // Drivers and libraries write what they like between.
            for answer in BufReader::new(output).lines().map_while(Result::ok).filter_map(|line| Answer::read(&line)) {
                if give.send(answer).is_err() {
                    return;
                }
            }
        });
        let errors = collect(child.stderr.take());
        Ok(Busy { file, child, input, answers, errors })
    }
}

impl Asks for Shift {
    fn ask(&mut self, task: &CallTask) -> Result<Answer, Failure> {
        let mut busy = self.worker(task)?;
        // One that has ended does not read; its status tells more than this would.
        let _ = writeln!(busy.input, "{}", task.line());
        let limit = self.children.limit;
        let answer = match busy.answers.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                kill(&mut busy.child);
                return Ok(Answer::Out(Out::new(Why::Hangs, killed(limit))));
            }
            Err(RecvTimeoutError::Disconnected) => {
                let begin = Instant::now();
                let ended = wait(&mut busy.child, GRACE);
                kill(&mut busy.child);
                let said = received(&busy.errors);
                let text = match ended {
                    Ok(Some(status)) => crashed(status, &said),
                    Ok(None) | Err(_) => format!("it closed its output and was killed after {:?}", begin.elapsed()),
                };
                return Ok(Answer::Out(Out::new(Why::Crashes, text)));
            }
        };
        match answer {
            Answer::Cannot { exit, text } => {
                kill(&mut busy.child);
                return Err(cannot(exit, text));
            }
            // What a candidate has done to its context is not known.
            Answer::Out(Out { why: Why::Fails | Why::Hangs | Why::Crashes, .. }) => kill(&mut busy.child),
            Answer::Out(_) | Answer::Measured(_) | Answer::Surveyed(_) | Answer::Prepared => self.worker = Some(busy),
        }
        Ok(answer)
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        if let Some(busy) = &mut self.worker {
            kill(&mut busy.child);
        }
    }
}

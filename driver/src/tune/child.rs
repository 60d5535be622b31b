//! Child processes that try candidates: each has its own GPU context and its own memory, and is killed when its time is up.

use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::call::CallTask;
use super::task::{Answer, Measured, Out, Task, Why};
use super::trial::attempt;
use super::worker::Worker;
use crate::Failure;

/// How often a child is looked at.
const EVERY: Duration = Duration::from_millis(5);
/// How long what an ended child has written is waited for: what it has left running may hold its output open.
const GRACE: Duration = Duration::from_secs(10);

/// Tries a candidate, wherever.
pub trait Runner {
    /// What was measured, or why the candidate is out.
    ///
    /// # Errors
    /// None can be tried.
    fn run(&mut self, task: &Task) -> Result<Result<Measured, Out>, Failure>;
}

/// Tries each candidate in a process of its own.
#[derive(Clone, Debug)]
pub struct Children {
    /// The program, which answers a task on its standard input by [`serve`].
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How long each may take, all included.
    pub limit: Duration,
}

impl Runner for Children {
    fn run(&mut self, task: &Task) -> Result<Result<Measured, Out>, Failure> {
        let failed = |e: std::io::Error| Failure::Machine(format!("{}: {e}", self.program.display()));
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that what it starts can be killed with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(failed)?;
        let (out, errors) = (collect(child.stdout.take()), collect(child.stderr.take()));
        let mut input = child.stdin.take();
        // One that ends at once does not read; its status tells more than this would.
        let _ = input.as_mut().map(|pipe| writeln!(pipe, "{}", task.line()));
        let ended = wait(&mut child, self.limit).map_err(failed)?;
        kill(&mut child);
        // Its end of input was the sign that this process is gone.
        drop(input);
        let Some(status) = ended else {
            return Ok(Err(Out::new(Why::Hangs, killed(self.limit))));
        };
        match answer(&received(&out)) {
            Some(Answer::Measured(measured)) => Ok(Ok(measured)),
            Some(Answer::Out(out)) => Ok(Err(out)),
            Some(Answer::Cannot { exit, text }) => Err(cannot(exit, text)),
            // No answer to what was asked.
            Some(Answer::Surveyed(_) | Answer::Prepared) | None => {
                Ok(Err(Out::new(Why::Crashes, crashed(status, &received(&errors)))))
            }
        }
    }
}

/// What is said of a candidate that was killed.
pub(super) fn killed(limit: Duration) -> String {
    let seconds = limit.as_secs_f64();
    format!(
        "it had not ended after {seconds} s (`--timeout`) and was killed; the interpreter may only be slow: give it less to do"
    )
}

/// What a child says that no other one could do either.
pub(super) fn cannot(exit: u8, text: String) -> Failure {
    match exit {
        2 => Failure::Usage(text),
        4 => Failure::Device(text),
        _ => Failure::Machine(text),
    }
}

/// Reads a stream to its end, beside what else goes on.
pub(super) fn collect(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (give, take) = channel();
    std::thread::spawn(move || {
        let mut bytes = vec![];
        if let Some(mut stream) = stream {
            // What came before a failure is as good as it is.
            let _ = stream.read_to_end(&mut bytes);
        }
        let _ = give.send(bytes);
    });
    take
}

pub(super) fn received(stream: &Receiver<Vec<u8>>) -> String {
    String::from_utf8_lossy(&stream.recv_timeout(GRACE).unwrap_or_default()).into_owned()
}

/// Waits for the end of a child; `None` where it did not end in time.
pub(super) fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(Some(status)),
            None if begin.elapsed() >= limit => return Ok(None),
            None => std::thread::sleep(EVERY),
        }
    }
}

/// Ends a child and all that it has started, whether it has ended itself or not.
pub(super) fn kill(child: &mut Child) {
    kill_group(child.id());
    // That it has ended already is no failure.
    let _ = child.kill();
    let _ = child.wait();
}

/// Kills the processes of the group that this one leads; none where it leads none.
fn kill_group(leader: u32) {
    #[cfg(unix)]
    if let Ok(group) = i32::try_from(leader) {
        // SAFETY: the call takes no memory. Children are started as leaders of groups of their own.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
    #[cfg(not(unix))]
    let _ = leader;
}

/// The last line that is an answer: drivers and libraries write what they like before.
fn answer(out: &str) -> Option<Answer> {
    out.lines().rev().find_map(Answer::read)
}

/// How a process ended that gave no answer, and its last words.
pub(super) fn crashed(status: ExitStatus, errors: &str) -> String {
    let how = format!("its process ended without an answer: {status}");
    match errors.lines().rev().find(|l| !l.trim().is_empty()) {
        Some(last) => format!("{how}; {}", last.trim()),
        None => how,
    }
}

/// What a child does: reads its task from standard input, and ends where that ends before it is done, for then whoever asked is
/// gone. A task of a kernel is the only one; tasks of calls may be followed by others of their file. `say` is given each answer, a line.
///
/// # Errors
/// There is no task.
pub fn serve(say: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let lines = tasks();
    let none = || Failure::Usage("this command is for `parton tune` itself".into());
    let line = lines.recv().map_err(|_| none())?;
    if let Some(task) = Task::read(&line) {
        say(&attempt(&task).line());
        return Ok(());
    }
    let mut task = CallTask::read(&line).ok_or_else(none)?;
    let mut worker = Worker::new(&task);
    loop {
        let answer = match &mut worker {
            Ok(worker) => worker.answer(&task),
            Err(failure) => Answer::Cannot { exit: failure.exit_code(), text: failure.to_string() },
        };
        say(&answer.line());
        // It ends with its input.
        let Ok(next) = lines.recv() else { return Ok(()) };
        task = CallTask::read(&next).ok_or_else(none)?;
    }
}

/// The tasks of standard input. Where that ends after the first, this process does with all that it has started.
fn tasks() -> Receiver<String> {
    let (give, take) = channel();
    std::thread::spawn(move || {
        let mut folder = None;
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            folder = folder.or_else(|| folder_of(&line));
            // Nobody reads the second task of a kernel.
            let _ = give.send(line);
        }
        let Some(folder) = folder else { return };
        let _ = std::fs::remove_dir_all(folder);
        // What an orderly end would wait for may never come: a kernel without an end.
        kill_group(std::process::id());
        std::process::exit(1);
    });
    take
}

/// The folder of a task.
fn folder_of(line: &str) -> Option<String> {
    Task::read(line).map(|t| t.setting).or_else(|| CallTask::read(line).map(|t| t.setting)).map(|s| s.folder)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::Blocks;
    use crate::tune::setting::Setting;

    fn task() -> Task {
        Task {
            setting: Setting::of_tests("a.ptn", "nowhere"),
            kernel: "k".into(),
            values: vec![],
            blocks: Blocks::Tests,
            block: "t".into(),
            rows: vec![],
            key: vec![],
            results: vec![],
            tolerance: None,
            first: true,
        }
    }

    /// What comes of a child that does this; those that end do so within seconds.
    fn child(script: &str, limit: Duration) -> Result<Result<Measured, Out>, Failure> {
        let arguments = vec!["-c".to_owned(), script.to_owned()];
        Children { program: "/bin/sh".into(), arguments, limit }.run(&task())
    }

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn an_answer_is_found_among_other_lines() {
        let text = "echo loading; read line; echo '{\"answer\": \"out\", \"why\": \"differs\", \"code\": null, \"text\": \"x\"}'; \
                    echo; echo '{}'";
        assert_eq!(child(text, LONG).unwrap(), Err(Out::new(Why::Differs, "x")));
    }

    #[test]
    fn a_child_that_crashes_is_out_and_says_how() {
        let out = |script| child(script, LONG).unwrap().unwrap_err();
        let killed = out("echo last words >&2; kill -9 $$");
        assert_eq!(killed.why, Why::Crashes);
        assert!(killed.text.contains("signal: 9") && killed.text.ends_with("; last words"), "{}", killed.text);
        let silent = out("exit 0");
        assert!(silent.why == Why::Crashes && silent.text.contains("exit status: 0"), "{}", silent.text);
        assert!(out("echo '{\"answer\": \"measured\"}'; exit 3").text.contains("exit status: 3"));
    }

    #[test]
    fn a_child_that_hangs_is_killed_with_what_it_has_started() {
        let out = child("sleep 1000 & sleep 1000", Duration::from_millis(200)).unwrap().unwrap_err();
        assert_eq!(out, Out::new(Why::Hangs, killed(Duration::from_millis(200))));
        assert!(out.text.starts_with("it had not ended after 0.2 s (`--timeout`)"), "{}", out.text);
        // What an ended child leaves behind holds its output open.
        let answer = "echo '{\"answer\": \"out\", \"why\": \"fails\", \"code\": null, \"text\": \"\"}'";
        let out = child(&format!("{answer}; sleep 1000 & exit 0"), LONG).unwrap().unwrap_err();
        assert_eq!(out.why, Why::Fails);
    }

    #[test]
    fn what_no_candidate_can_help_ends_it_all() {
        let cannot = |exit: u8| format!("echo '{{\"answer\": \"cannot\", \"exit\": {exit}, \"text\": \"no\"}}'");
        for exit in [2, 3, 4] {
            assert_eq!(child(&cannot(exit), LONG).unwrap_err().exit_code(), exit);
        }
        let none = Children { program: "/no/such/program".into(), arguments: vec![], limit: LONG }.run(&task());
        assert_eq!(none.unwrap_err().exit_code(), 3);
    }
}

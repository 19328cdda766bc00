//! Child processes that tests kill, pause and freeze. Linux only: it reads `/proc`.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use crate::procfs;

/// Names the crash point at which a process freezes itself.
pub const CRASH_POINT: &str = "LINECLEAR_CRASH_POINT";

const POLL: Duration = Duration::from_millis(2);
/// The kernel stops a process at once; a loaded machine may take a moment to show it.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// A program to start.
pub struct Program(Command);

impl Program {
    /// The program in a file. It inherits the environment.
    pub fn at(path: impl AsRef<OsStr>) -> Self {
        Self(Command::new(path))
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.0.args(arguments);
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Gives it a clock of its own (libfaketime): `offset` is a file with how far it is off, like `-90s`. A change of the file sets the
    /// clock; clocks that measure time go on.
    pub fn clock(self, offset: &Path) -> Result<Self> {
        let library = glob_one("/usr/lib", "faketime/libfaketimeMT.so.1")
            .context("no libfaketime in /usr/lib: run scripts/install")?;
        let settings =
            [("FAKETIME_NO_CACHE", "1"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1"), ("DONT_FAKE_MONOTONIC", "1")];
        let this = self.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", offset);
        Ok(settings.into_iter().fold(this, |this, (name, value)| this.env(name, value)))
    }

    /// Starts it in another folder.
    pub fn current_dir(mut self, folder: &Path) -> Self {
        self.0.current_dir(folder);
        self
    }

    /// Makes it freeze itself when it reaches this crash point; `name#3` means the third time.
    /// Wait for it with [`Child::wait_until_stopped`], then kill or resume it.
    pub fn stop_at(self, point: &str) -> Self {
        self.env(CRASH_POINT, point)
    }

    /// Starts it with no input and captured output.
    pub fn start(mut self) -> Result<Child> {
        let command = self.0.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().with_context(|| format!("starting {:?}", command.get_program()))?;
        let sender = watch::Sender::new(Output { lines: Vec::new(), open: 2 });
        let output = sender.subscribe();
        read(process.stdout.take(), Stream::Out, sender.clone());
        read(process.stderr.take(), Stream::Err, sender);
        Ok(Child { process, output })
    }
}

/// A file in the folder of a machine's architecture: `/usr/lib/x86_64-linux-gnu/…`.
fn glob_one(folder: &str, file: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir(folder).ok()?.flatten();
    folders.map(|folder| folder.path().join(file)).find(|file| file.is_file())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Out,
    Err,
}

struct Output {
    lines: Vec<(Stream, String)>,
    /// How many of the two streams are open.
    open: u8,
}

/// Threads read, not tasks: output is read even while the test's runtime is busy or blocked.
fn read(from: Option<impl Read + Send + 'static>, stream: Stream, to: watch::Sender<Output>) {
    thread::spawn(move || {
        for line in
            from.map(BufReader::new).into_iter().flat_map(|from| from.split(b'\n')).map_while(Result::ok)
        {
            let line = String::from_utf8_lossy(&line).into_owned();
            to.send_modify(|output| output.lines.push((stream, line)));
        }
        to.send_modify(|output| output.open -= 1);
    });
}

/// A running child. It is killed and reaped when this is dropped; its output is shown if the test is failing.
pub struct Child {
    process: std::process::Child,
    output: watch::Receiver<Output>,
}

impl Child {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Lines of standard output read so far; all of them after [`Child::wait_for_exit`].
    pub fn stdout(&self) -> Vec<String> {
        self.lines_of(Stream::Out)
    }

    /// Lines of standard error read so far; all of them after [`Child::wait_for_exit`].
    pub fn stderr(&self) -> Vec<String> {
        self.lines_of(Stream::Err)
    }

    fn lines_of(&self, wanted: Stream) -> Vec<String> {
        let output = self.output.borrow();
        output.lines.iter().filter(|(stream, _)| *stream == wanted).map(|(_, line)| line.clone()).collect()
    }

    /// Waits for a line on either stream that contains `text`, and returns it. One written before counts.
    pub async fn wait_for_line(&self, text: &str, within: Duration) -> Result<String> {
        self.wait_for_lines(text, 1, within).await
    }

    /// Waits until `count` lines contain `text`, and returns the last of these. Fails as soon as all output
    /// has ended.
    pub async fn wait_for_lines(&self, text: &str, count: usize, within: Duration) -> Result<String> {
        let find = |output: &Output| {
            let mut found = output.lines.iter().filter(|(_, line)| line.contains(text));
            found.nth(count.saturating_sub(1)).map(|(_, line)| line.clone())
        };
        let mut output = self.output.clone();
        let wait = output.wait_for(|output| output.open == 0 || find(output).is_some());
        if let Ok(Ok(output)) = timeout(within, wait).await
            && let Some(line) = find(&output)
        {
            return Ok(line);
        }
        Err(anyhow!(
            "not {count} lines with {text:?} within {within:?}; the output was:\n{}",
            self.transcript()
        ))
    }

    /// Waits until it has ended and its output is read.
    pub async fn wait_for_exit(&mut self, within: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.process.try_wait()? {
                // Children of the child may hold the streams open for longer, which is no failure.
                timeout(deadline - Instant::now(), self.output.wait_for(|output| output.open == 0))
                    .await
                    .ok();
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "still running after {within:?}:\n{}", self.transcript());
            sleep(POLL).await;
        }
    }

    /// Waits until all its threads are stopped, by [`Child::pause`] or at a crash point.
    pub async fn wait_until_stopped(&mut self, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        while !procfs::is_stopped(self.id()) {
            if let Some(status) = self.process.try_wait()? {
                return Err(anyhow!("it ended ({status}) and did not stop:\n{}", self.transcript()));
            }
            ensure!(Instant::now() < deadline, "not stopped after {within:?}:\n{}", self.transcript());
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Stops it (SIGSTOP), and waits until it is stopped.
    pub async fn pause(&mut self) -> Result<()> {
        self.signal(Signal::STOP)?;
        self.wait_until_stopped(STOP_WITHIN).await
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&mut self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Kills it (SIGKILL) and reaps it. It is no error if it has ended before.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        self.process.kill()?;
        Ok(self.process.wait()?)
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        // Until it is reaped, no other process gets its id.
        ensure!(self.process.try_wait()?.is_none(), "it has ended:\n{}", self.transcript());
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// All its output, in order.
    fn transcript(&self) -> String {
        let output = self.output.borrow();
        output.lines.iter().fold(String::new(), |text, (_, line)| text + "  | " + line + "\n")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill().ok();
        if thread::panicking() {
            eprintln!("output of process {}:\n{}", self.id(), self.transcript());
        }
    }
}

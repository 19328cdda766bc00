//! The kind `command`: runs a program. `{"argv": ["/usr/bin/backup", "--all"]}`, and no shell unless that is the program.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use lineclear::model::Payload;
use lineclear::model::secret::without_value;
use lineclear::{Cancel, Done, HandlerError, Input, JobInfo, Permanent, State, Trust};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::Allowed;
use super::guards::Guards;
use super::output::{Read, Stream};
use crate::failure::Failure;
use crate::process::Group;

pub(super) const KIND: &str = "command";

/// Between TERM and KILL.
const GRACE: Duration = Duration::from_secs(4);
/// How long to wait for what a command wrote, when something that has left its process group still holds the pipe.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Linux's MAX_ARG_STRLEN, without the zero at its end.
const WORD_BYTES_MAX: usize = 128 * 1024 - 1;

/// What commands may be run, and how.
pub(super) struct Commands {
    allowed: Allowed,
    guards: Guards,
    lease: Duration,
}

impl Commands {
    pub(super) fn new(allowed: Allowed, lease: Duration) -> Commands {
        Commands { allowed, guards: Guards::new(lease), lease }
    }

    /// Between TERM and KILL: as long as the node waits for a handler that was told to stop, but not longer than the job is ours. A tenth
    /// of the lease is left when trust ends.
    fn grace(&self, trust: &Trust) -> Duration {
        let left = trust.left();
        if left.is_zero() { left } else { GRACE.min(left + self.lease / 20) }
    }
}

/// The input of a job.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    argv: Vec<String>,
}

/// Looks at an input before it is saved. What may be run is seen when it is, because servers may differ.
pub(super) fn check(input: &Payload) -> Result<(), String> {
    let order: Order = input.read().map_err(|error| without_value(&error.to_string()))?;
    check_argv(&order.argv)
}

/// Whether it can be run at all.
pub(crate) fn check_argv(argv: &[String]) -> Result<(), String> {
    if !argv.first().is_some_and(|program| program.starts_with('/')) {
        return Err(
            "argv: it begins with a program and its whole path, such as [\"/usr/bin/backup\", \"--all\"]"
                .to_owned(),
        );
    }
    match argv.iter().map(String::len).max() {
        Some(longest) if longest > WORD_BYTES_MAX => Err(format!(
            "argv: a word of {longest} bytes; the system gives a program none of more than {WORD_BYTES_MAX}. Put it into a file, and run that"
        )),
        _ => Ok(()),
    }
}

/// The output of a job.
#[derive(Serialize)]
pub(super) struct Report {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs it to its end.
pub(super) async fn run(
    Input(order): Input<Order>,
    job: JobInfo,
    cancel: Cancel,
    trust: Trust,
    commands: State<Commands>,
) -> Result<Done<Report>, HandlerError> {
    if !commands.allowed.allows(&order.argv) {
        // Without its arguments, which may be secret.
        let program = order.argv.first().cloned().unwrap_or_default();
        return Err(Permanent::new(format!(
            "this server may not run {program:?} with these arguments: it is not among its `commands`; add it to lineclear.toml there, and \
             start it again"
        ))
        .into());
    }
    let mut running = Running::begin(order.argv, &job, &cancel, &trust, &commands).await?;
    let (stdout, stderr) = (running.group.child.stdout.take(), running.group.child.stderr.take());
    let (mut out, mut err) = (Read::default(), Read::default());
    let status = {
        let reading = async { tokio::join!(out.all(stdout, Stream::Out), err.all(stderr, Stream::Err)) };
        tokio::pin!(reading);
        let mut read_all = false;
        let status = {
            let ended = running.until_end(&cancel, || commands.grace(&trust));
            tokio::pin!(ended);
            loop {
                tokio::select! {
                    status = &mut ended => break status,
                    // It may run on after it has closed its output.
                    _ = &mut reading, if !read_all => read_all = true,
                }
            }
        };
        drop(running);
        if !read_all {
            tokio::time::timeout(LAST_WORDS, reading).await.ok();
        }
        status.map_err(|failure| failure.message().to_owned())?
    };
    let Some(status) = status else {
        // Whatever it said at the end, it was not done.
        return Err("it was ended before it was done".into());
    };
    match status.code() {
        Some(0) => Ok(Done(Report { code: 0, stdout: out.tail(), stderr: err.tail() })),
        _ => Err(failed(status, err.last_line().or_else(|| out.last_line())).into()),
    }
}

fn failed(status: ExitStatus, last_line: Option<String>) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    };
    last_line.map_or_else(|| how.clone(), |line| format!("{how}: {line}"))
}

/// A command that runs. When this is dropped, nothing of it is left.
struct Running {
    group: Group,
    guards: Guards,
}

impl Running {
    async fn begin(
        argv: Vec<String>,
        job: &JobInfo,
        cancel: &Cancel,
        trust: &Trust,
        commands: &Commands,
    ) -> Result<Running, HandlerError> {
        let said = |failure: Failure| HandlerError::from(failure.message().to_owned());
        let argv: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
        let group = Group::make(&argv, |command| {
            // Ours hold the password of the database.
            for (name, _) in
                std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"LINECLEAR_"))
            {
                command.env_remove(name);
            }
            command
                .envs(variables(job))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
        });
        let running = Running { group: group.await.map_err(said)?, guards: commands.guards.clone() };
        running.guards.begins(running.group.id(), trust.clone()).await.map_err(said)?;
        // All this may have taken its time.
        if cancel.is_requested() || trust.left().is_zero() {
            return Err("told to stop before it began".into());
        }
        running.group.let_go();
        Ok(running)
    }

    /// Waits for its end, or ends it when it is told to: then `None`.
    async fn until_end(
        &mut self,
        cancel: &Cancel,
        grace: impl Fn() -> Duration,
    ) -> Result<Option<ExitStatus>, Failure> {
        tokio::select! {
            biased;
            status = self.group.ended() => status.map(Some),
            () = cancel.requested() => self.group.end(grace()).await.map(|_| None),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What it left in the background would go on beside the next one.
        self.group.signal(Signal::KILL);
        self.guards.ended(self.group.id());
    }
}

/// What a command finds in its environment.
fn variables(job: &JobInfo) -> impl Iterator<Item = (&'static str, String)> {
    [
        ("LINECLEAR_JOB", Some(job.id.to_string())),
        ("LINECLEAR_CLAIM", Some(job.claim_no.to_string())),
        ("LINECLEAR_ATTEMPT", Some(job.attempt.to_string())),
        ("LINECLEAR_TICK", job.tick_at.map(|tick| tick.to_string())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
}

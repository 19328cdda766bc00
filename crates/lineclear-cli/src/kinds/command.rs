//! The kind `command`: runs a program, such as `{"argv": ["/usr/bin/backup", "--all"]}`, without a shell.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use lineclear::model::Payload;
use lineclear::model::secret::{MARKER, without_value};
use lineclear::secrets::UsedSecrets;
use lineclear::{Cancel, Done, HandlerError, Input, JobInfo, Permanent, State, Trust};
use serde::{Deserialize, Serialize};

use super::Allowed;
use super::command_settings::Variables;
use super::guards::Guards;
use super::output::{Captured, Stream};
use crate::failure::Failure;
use crate::process::{Confinement, Group, Launch};

pub(super) const KIND: &str = "command";

/// Time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(4);
/// How long to wait for the end of the output if a process that could not be killed still holds the pipe.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Linux's MAX_ARG_STRLEN, without the final zero byte.
const ARGUMENT_BYTES_MAX: usize = 128 * 1024 - 1;

/// The allowed commands, what confines them, and their guards.
pub(super) struct Commands {
    allowed: Allowed,
    launch: Launch,
    variables: Variables,
    guards: Guards,
    lease: Duration,
}

impl Commands {
    pub(super) fn new(
        allowed: Allowed,
        confinement: Confinement,
        variables: Variables,
        lease: Duration,
    ) -> Commands {
        let launch = Launch::Supervised(confinement);
        Commands { allowed, launch, variables, guards: Guards::new(lease), lease }
    }

    /// Time between TERM and KILL: as long as the node waits for a handler that was told to stop, but not longer than the lease. When
    /// trust ends, a tenth of the lease is left.
    fn grace(&self, trust: &Trust) -> Duration {
        let left = trust.left();
        if left.is_zero() { left } else { GRACE.min(left + self.lease / 20) }
    }
}

/// The input of a job.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandInput {
    argv: Vec<String>,
    /// Variables for the program. Only secrets: with `PATH` or `LD_PRELOAD`, the author of a job could run another program.
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// Checks an input before it is saved. Whether the command is allowed is checked when it runs, because servers may differ.
pub(super) fn check(input: &Payload) -> Result<(), String> {
    let command: CommandInput = input.read().map_err(|error| without_value(&error.to_string()))?;
    check_env(&command.env, |_, value| value == MARKER)?;
    check_argv(&command.argv)
}

fn check_env(env: &BTreeMap<String, String>, is_secret: impl Fn(&str, &str) -> bool) -> Result<(), String> {
    for (name, value) in env {
        let begins_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !begins_well || !is_plain || name.starts_with("LINECLEAR_") || name.starts_with("LD_") {
            return Err(format!("`env`: {name:?} is not a variable that a job may set"));
        }
        if !is_secret(name, value) {
            return Err(format!("`env`: {name} must be a secret, such as {{\"$secret\": \"db-password\"}}"));
        }
    }
    Ok(())
}

/// Checks whether a system can run it.
pub(crate) fn check_argv(argv: &[String]) -> Result<(), String> {
    if !argv.first().is_some_and(|program| program.starts_with('/')) {
        return Err(
            "`argv` must begin with the absolute path of a program, such as [\"/usr/bin/backup\", \"--all\"]"
                .to_owned(),
        );
    }
    match argv.iter().map(String::len).max() {
        Some(longest) if longest > ARGUMENT_BYTES_MAX => Err(format!(
            "`argv` has an argument of {longest} bytes; the system allows {ARGUMENT_BYTES_MAX}. Put it into a file"
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

/// Runs a command to its end.
pub(super) async fn run(
    Input(command): Input<CommandInput>,
    job: JobInfo,
    cancel: Cancel,
    trust: Trust,
    commands: State<Commands>,
    used: UsedSecrets,
) -> Result<Done<Report>, HandlerError> {
    check_env(&command.env, |name, _| used.is_secret(&format!("/env/{name}"))).map_err(Permanent::new)?;
    if !commands.allowed.allows(&command.argv) {
        // The arguments are not named: they may be secret.
        let program = command.argv.first().cloned().unwrap_or_default();
        return Err(Permanent::new(format!(
            "{program:?} with these arguments is not among the `commands` of this server; add it to its lineclear.toml and restart it"
        ))
        .into());
    }
    let mut running = Running::begin(command, &job, &cancel, &trust, &commands).await?;
    let (stdout, stderr) = (running.group.child.stdout.take(), running.group.child.stderr.take());
    let (mut out, mut err) = (Captured::default(), Captured::default());
    let status = {
        let reading =
            async { tokio::join!(out.read_all(stdout, Stream::Out), err.read_all(stderr, Stream::Err)) };
        tokio::pin!(reading);
        let mut read_all = false;
        let status = {
            let ended = running.until_end(&cancel, || commands.grace(&trust));
            tokio::pin!(ended);
            loop {
                tokio::select! {
                    status = &mut ended => break status,
                    // The command may continue after closing its output.
                    _ = &mut reading, if !read_all => read_all = true,
                }
            }
        };
        drop(running);
        if !read_all {
            tokio::time::timeout(OUTPUT_TIMEOUT, reading).await.ok();
        }
        status.map_err(|failure| failure.message().to_owned())?
    };
    let Some(status) = status else {
        // Whatever its exit code, it did not finish.
        return Err("the command was stopped before it finished".into());
    };
    match status.code() {
        Some(0) => Ok(Done(Report { code: 0, stdout: out.tail(), stderr: err.tail() })),
        _ => Err(failed(status, err.last_line().or_else(|| out.last_line())).into()),
    }
}

fn failed(status: ExitStatus, last_line: Option<String>) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    };
    last_line.map_or_else(|| how.clone(), |line| format!("{how}: {line}"))
}

/// A running command. Dropping it kills all that it has started.
struct Running {
    group: Group,
    guards: Guards,
}

impl Running {
    async fn begin(
        command: CommandInput,
        job: &JobInfo,
        cancel: &Cancel,
        trust: &Trust,
        commands: &Commands,
    ) -> Result<Running, HandlerError> {
        let failed = |failure: Failure| HandlerError::from(failure.message().to_owned());
        let CommandInput { argv, env } = command;
        let argv: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
        let group = Group::start(&commands.launch, &argv, |command| {
            command
                .env_clear()
                .envs(commands.variables.iter().map(|(name, value)| (name, value)))
                .envs(env)
                .envs(variables(job))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
        });
        let running = Running { group: group.await.map_err(failed)?, guards: commands.guards.clone() };
        running.guards.begins(running.group.id(), trust.clone()).await.map_err(failed)?;
        // Starting the process may have taken long.
        if cancel.is_requested() || trust.left().is_zero() {
            return Err("stopped before the command began".into());
        }
        running.group.release();
        Ok(running)
    }

    /// Waits for its end. `None` if it was stopped on request.
    async fn until_end(
        &mut self,
        cancel: &Cancel,
        grace: impl Fn() -> Duration,
    ) -> Result<Option<ExitStatus>, Failure> {
        tokio::select! {
            biased;
            status = self.group.wait() => status.map(Some),
            () = cancel.requested() => self.group.terminate(grace()).await.map(|_| None),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Background processes would run beside the next attempt.
        self.group.kill();
        self.guards.ended(self.group.id());
    }
}

/// The variables that describe a job.
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

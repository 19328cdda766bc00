//! `up` and `down`: servers that keep running, for development.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use lineclear_testkit::servers::{
    Servers,
    place::{LEFT_PREFIX, Lifetime},
    postgres::Durability,
    process::Record,
};

const ENVIRONMENT: &str = "env";
/// First line: the folder of the servers' files. Then one line for each process.
const STATE: &str = "state";

/// Starts servers unless they run, and prints their environment.
pub(crate) async fn up(dir: &Path) -> Result<ExitCode> {
    let environment = dir.join(ENVIRONMENT);
    let running = read_state(dir).is_some_and(|(_, records)| records.iter().all(Record::is_alive));
    if !(running && environment.exists()) {
        down(dir)?;
        start(dir).await?;
    }
    print!("{}", fs::read_to_string(environment)?);
    Ok(ExitCode::SUCCESS)
}

async fn start(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    // An interrupt drops the servers that have started, which stops them.
    let servers = tokio::select! {
        servers = Servers::start(Lifetime::UntilStopped, Durability::ThrowAway) => servers?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    };
    let mut exports = String::new();
    for (variable, url) in servers.environment() {
        writeln!(exports, "export {variable}={url}")?;
    }
    fs::write(dir.join(ENVIRONMENT), exports)?;

    let mut state = format!("{}\n", servers.dir().display());
    for Record { name, pid, started, stop } in servers.leave() {
        writeln!(state, "{name} {pid} {started} {stop}")?;
    }
    fs::write(dir.join(STATE), state)?;
    Ok(())
}

/// Stops the processes that `up` started, and no others, and removes their files.
pub(crate) fn down(dir: &Path) -> Result<ExitCode> {
    if let Some((files, records)) = read_state(dir) {
        records.iter().for_each(Record::stop);
        // The state is a text file that users may edit: only our own folder is removed.
        let name = files.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(LEFT_PREFIX) && files.exists() {
            fs::remove_dir_all(&files).with_context(|| format!("removing {}", files.display()))?;
        }
    }
    for file in [ENVIRONMENT, STATE] {
        drop(fs::remove_file(dir.join(file)));
    }
    // Fails if it holds other files, which stay.
    drop(fs::remove_dir(dir));
    Ok(ExitCode::SUCCESS)
}

fn read_state(dir: &Path) -> Option<(PathBuf, Vec<Record>)> {
    let state = fs::read_to_string(dir.join(STATE)).ok()?;
    let mut lines = state.lines();
    let files = PathBuf::from(lines.next()?);
    Some((files, lines.filter_map(record).collect()))
}

fn record(line: &str) -> Option<Record> {
    let [name, pid, started, stop] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
    Some(Record {
        name: name.into(),
        pid: pid.parse().ok()?,
        started: started.parse().ok()?,
        stop: stop.parse().ok()?,
    })
}

//! `lineclear manifest import`: manifests of a crontab.

mod clock;
mod crontab;
mod environment;
mod keys;
mod machine;
mod program;
mod report;
mod write;

use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use lineclear::store::BATCH_MAX;
use lineclear_model::Name;
use lineclear_model::manifest::FILE_BYTES_MAX;
use serde_json::json;

use crate::failure::{Failure, say};
use crate::output::{print, print_json};
use write::Import as Made;

const EXAMPLES: &str = "Examples:
  crontab -l | lineclear manifest import --crontab - --out jobs.toml
  lineclear manifest import --crontab /etc/crontab --system --tz Europe/Berlin > jobs.toml
  lineclear manifest import --crontab my.cron --json

Needs no server: it only writes a file, for `lineclear manifest apply -f`. What servers must be \
allowed to run, and each line that was left out, is said beside it. Exit code 1: some lines were \
left out, and all others are in the file.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Import {
    /// The crontab; - for standard input
    #[arg(long, value_name = "FILE")]
    crontab: PathBuf,
    /// A user stands before each command, as in /etc/crontab and /etc/cron.d
    #[arg(long)]
    system: bool,
    /// Only lines of this user, the one that the server runs as; others are left out
    #[arg(long, value_name = "NAME", requires = "system")]
    user: Option<String>,
    /// Where the times are those of the clock on the wall [default: where this machine is]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Stands before all keys, so that two crontabs may run programs of the same name
    #[arg(long, value_name = "NAME", value_parser = prefix)]
    prefix: Option<Name>,
    /// Writes here, and not to standard output; into a folder, under the crontab's name
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Writes over a file that is there
    #[arg(long, requires = "out")]
    force: bool,
    /// Prints what was made of it as JSON
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let zone = machine::zone(self.tz.as_deref())?;
        let is_of_system =
            self.crontab == Path::new("/etc/crontab") || self.crontab.starts_with("/etc/cron.d");
        if is_of_system && !self.system {
            let message = format!("{} has a user before each command", self.crontab.display());
            return Err(Failure::usage(message).hint("say --system"));
        }
        let mut crontab = crontab::read(&machine::bytes(&self.crontab)?, self.system);
        self.look_at_users(&mut crontab);
        let made = write::import(crontab, &zone.name, self.prefix.as_ref());
        if made.manifests.is_empty() && made.left_out.is_empty() {
            return Err(Failure::coded(3, "there is no line in it that runs anything; nothing was written")
                .hint("`crontab -l` shows the crontab of this user, `crontab -l -u NAME` that of another"));
        }
        let (size, count) = (made.text.len(), made.manifests.len());
        if size > FILE_BYTES_MAX || count > BATCH_MAX {
            let message = format!(
                "{count} manifests of {size} bytes: a file has at most {BATCH_MAX} of {FILE_BYTES_MAX} bytes in all"
            );
            return Err(Failure::usage(message).hint("split the crontab, and import each part"));
        }
        let written = self.write(&made)?;
        if self.json {
            print_json(&self.plan(&made, &zone.name))?;
        } else if written.is_none() {
            print(&made.text)?;
        }
        say(&report::told(&made, &zone, written.as_deref(), &self.owner()));
        Ok(if made.left_out.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Commands run as the server's user, whoever stands in a crontab.
    fn look_at_users(&self, crontab: &mut crontab::Crontab) {
        let known = machine::users();
        let entries = std::mem::take(&mut crontab.entries);
        for entry in entries {
            let said = |why: String| crontab::Remark::new(entry.line, why);
            match (&entry.user, &self.user) {
                (Some(user), Some(wanted)) if user != wanted => {
                    crontab.left_out.push(said(format!("it is {user}'s, and not {wanted}'s")));
                    continue;
                }
                (Some(user), None) => {
                    crontab.notes.push(said(format!("cron ran it as {user}; here it runs as the server's user (--user NAME takes the lines of one)")));
                }
                (Some(_), Some(_)) => {}
                (None, _) => {
                    let mut words = entry.command.split_whitespace();
                    let (first, second) =
                        (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                    if known.contains(first) {
                        crontab.notes.push(said(format!("{first} is a user of this machine: if it is one here, and no command, say --system")));
                    } else if second.starts_with('/') && machine::may_be_a_user(first) {
                        crontab.notes.push(said(format!("{first} is no program of this machine, and a path follows: if it is a user, as in /etc/crontab, and no command, say --system")));
                    }
                }
            }
            if report::shows_a_secret(&entry.command) {
                crontab.notes.push(said("it holds something like a password, which a manifest shows to all who may read: better in a file that only the server's user can read".to_owned()));
            }
            if report::depends_on_folder(&entry.command) {
                crontab.notes.push(said("it names a file from where it starts: with cron that is the user's home, here it is where the server runs".to_owned()));
            }
            crontab.entries.push(entry);
        }
    }

    /// Writes the file, if there shall be one; where it is.
    fn write(&self, made: &Made) -> Result<Option<PathBuf>, Failure> {
        let Some(out) = &self.out else { return Ok(None) };
        let is_folder = out.is_dir() || out.as_os_str().as_encoded_bytes().ends_with(b"/");
        let path = if is_folder { out.join(self.file_name()) } else { out.clone() };
        let cannot = |error: std::io::Error| match error.kind() {
            ErrorKind::AlreadyExists => Failure::coded(5, format!("{} is there already", path.display()))
                .hint("--force writes over it"),
            _ => Failure::usage(format!("--out: {}: {error}", path.display())),
        };
        if machine::is_same(&self.crontab, &path) {
            let message = format!("--out: {} is the crontab itself, which would be gone", path.display());
            return Err(Failure::usage(message).hint("write to another file"));
        }
        if is_folder {
            std::fs::create_dir_all(out).map_err(cannot)?;
        }
        let mut options = std::fs::File::options();
        options.write(true);
        if self.force {
            options.create(true).truncate(true)
        } else {
            options.create_new(true)
        };
        options.open(&path).and_then(|mut file| file.write_all(made.text.as_bytes())).map_err(cannot)?;
        Ok(Some(path))
    }

    /// A name that `apply` finds in a folder.
    fn file_name(&self) -> PathBuf {
        // All of it: php8.1 and php8.2 are two.
        let mut name = self.own_name().to_owned();
        name.push(".toml");
        name.into()
    }

    fn own_name(&self) -> &OsStr {
        self.crontab.file_name().filter(|name| *name != "-").unwrap_or("crontab".as_ref())
    }

    /// Whose these manifests are, unless somebody says otherwise: then another crontab cannot take them over by mistake.
    fn owner(&self) -> String {
        match &self.prefix {
            Some(prefix) => prefix.to_string(),
            None => keys::valid(&self.own_name().to_string_lossy()),
        }
    }

    fn plan(&self, made: &Made, zone: &str) -> serde_json::Value {
        let remarks = |all: &[crontab::Remark]| -> Vec<serde_json::Value> {
            all.iter()
                .map(|remark| json!({"line": remark.line, "why": remark.why, "hint": remark.hint}))
                .collect()
        };
        json!({
            "zone": zone, "manifests": made.manifests, "commands": made.commands, "left_out": remarks(&made.left_out),
            "notes": remarks(&made.notes),
        })
    }
}

/// With the letters that keys have, and room for the rest of them.
fn prefix(text: &str) -> Result<Name, String> {
    const MOST: usize = 40;
    let name = Name::new(text).map_err(|bad| bad.to_string())?;
    if text.len() > MOST { Err(format!("it has more than {MOST} letters")) } else { Ok(name) }
}

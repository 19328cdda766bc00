//! `lineclear manifest import`: converts a crontab to a manifest file.

mod convert;
mod crontab;
mod environment;
mod host;
mod keys;
mod program_name;
mod report;
mod schedule;

use std::ffi::OsStr;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use lineclear::store::BATCH_MAX;
use lineclear_model::Name;
use lineclear_model::manifest::FILE_BYTES_MAX;
use serde_json::json;

use crate::failure::Failure;
use crate::output::print_stderr;
use crate::output::{print, print_json};
use convert::Converted;

const EXAMPLES: &str = "Examples:
  crontab -l | lineclear manifest import --crontab - --out jobs.toml
  lineclear manifest import --crontab /etc/crontab --system --tz Europe/Berlin > jobs.toml
  lineclear manifest import --crontab my.cron --json

Needs no server: it only writes a file for `lineclear manifest apply -f`. Standard error gets the \
`commands` setting that servers need, and each line that was left out. Exits with 1 if lines were \
left out; all others are in the file.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Import {
    /// Crontab to read; - is standard input
    #[arg(long, value_name = "FILE")]
    crontab: PathBuf,
    /// Lines have a user before the command, as in /etc/crontab and /etc/cron.d
    #[arg(long)]
    system: bool,
    /// Convert only lines of this user, which should be the user of the server
    #[arg(long, value_name = "NAME", requires = "system")]
    user: Option<String>,
    /// Time zone of the schedules [default: the time zone of this machine]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// Prefix of all keys, to tell crontabs apart
    #[arg(long, value_name = "NAME", value_parser = prefix)]
    prefix: Option<Name>,
    /// File to write instead of standard output; in a folder, the file is named like the crontab
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "out")]
    force: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let zone = host::default_zone(self.tz.as_deref())?;
        let is_system_crontab =
            self.crontab == Path::new("/etc/crontab") || self.crontab.starts_with("/etc/cron.d");
        if is_system_crontab && !self.system {
            let message = format!("{} has a user before each command", self.crontab.display());
            return Err(Failure::usage(message).hint("add --system"));
        }
        let mut crontab = crontab::read(&host::read(&self.crontab)?, self.system);
        self.check_entries(&mut crontab);
        let made = convert::convert(crontab, &zone.name, self.prefix.as_ref());
        if made.manifests.is_empty() && made.left_out.is_empty() {
            return Err(Failure::coded(
                3,
                "the crontab has no line that runs a command; nothing was written",
            )
            .hint("`crontab -l` prints the crontab of this user, `crontab -l -u NAME` that of another"));
        }
        let (size, count) = (made.text.len(), made.manifests.len());
        if size > FILE_BYTES_MAX || count > BATCH_MAX {
            let message = format!(
                "{count} manifests with {size} bytes are too many: a file holds at most {BATCH_MAX} with {FILE_BYTES_MAX} bytes"
            );
            return Err(Failure::usage(message).hint("split the crontab and import each part"));
        }
        let written = self.write(&made)?;
        if self.json {
            print_json(&self.json(&made, &zone.name))?;
        } else if written.is_none() {
            print(&made.text)?;
        }
        print_stderr(&report::render(&made, &zone, written.as_deref(), &self.owner()));
        Ok(if made.left_out.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Selects lines by user, and adds notes about users, secrets and folders. All commands run as the server's user.
    fn check_entries(&self, crontab: &mut crontab::Crontab) {
        let known = host::users();
        let entries = std::mem::take(&mut crontab.entries);
        for entry in entries {
            let remark = |why: String| crontab::Remark::new(entry.line, why);
            match (&entry.user, &self.user) {
                (Some(user), Some(wanted)) if user != wanted => {
                    crontab.left_out.push(remark(format!("belongs to user {user}, not {wanted}")));
                    continue;
                }
                (Some(user), None) => {
                    crontab.notes.push(remark(format!("cron ran this as {user}; the server runs it as its own user (--user NAME selects the lines of one user)")));
                }
                (Some(_), Some(_)) => {}
                (None, _) => {
                    let mut words = entry.command.split_whitespace();
                    let (first, second) =
                        (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                    if known.contains(first) {
                        crontab.notes.push(remark(format!(
                            "{first} is a user of this machine; if it is not the command here, add --system"
                        )));
                    } else if second.starts_with('/') && host::may_be_a_user(first) {
                        crontab.notes.push(remark(format!("{first} is not a program of this machine and a path follows; if it is a user, as in /etc/crontab, add --system")));
                    }
                }
            }
            if report::contains_secret(&entry.command) {
                crontab.notes.push(remark("contains what looks like a password; clients with the scope read can see it in the manifest: put it into a file that only the server's user can read".to_owned()));
            }
            if report::has_relative_path(&entry.command) {
                crontab.notes.push(remark(
                    "uses a relative path: cron starts in the user's home, the server in its own folder"
                        .to_owned(),
                ));
            }
            crontab.entries.push(entry);
        }
    }

    /// Writes the file of `--out` and returns its path.
    fn write(&self, made: &Converted) -> Result<Option<PathBuf>, Failure> {
        let Some(out) = &self.out else { return Ok(None) };
        let is_folder = out.is_dir() || out.as_os_str().as_encoded_bytes().ends_with(b"/");
        let path = if is_folder { out.join(self.file_name()) } else { out.clone() };
        let cannot = |error: std::io::Error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Failure::coded(5, format!("{} exists", path.display())).hint("--force overwrites it")
            }
            _ => Failure::usage(format!("--out: {}: {error}", path.display())),
        };
        if host::is_same(&self.crontab, &path) {
            let message = format!("--out: {} is the crontab itself", path.display());
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

    /// The name of the file in a folder.
    fn file_name(&self) -> PathBuf {
        // With what looks like an extension: php8.1 and php8.2 are two crontabs.
        let mut name = self.crontab_name().to_owned();
        name.push(".toml");
        name.into()
    }

    fn crontab_name(&self) -> &OsStr {
        self.crontab.file_name().filter(|name| *name != "-").unwrap_or("crontab".as_ref())
    }

    /// The suggested owner, so that another crontab does not take over these manifests by mistake.
    fn owner(&self) -> String {
        match &self.prefix {
            Some(prefix) => prefix.to_string(),
            None => keys::valid(&self.crontab_name().to_string_lossy()),
        }
    }

    fn json(&self, made: &Converted, zone: &str) -> serde_json::Value {
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

/// Parses `--prefix`, which leaves room for the rest of a key.
fn prefix(text: &str) -> Result<Name, String> {
    const MOST: usize = 40;
    let name = Name::new(text).map_err(|bad| bad.to_string())?;
    if text.len() > MOST { Err(format!("must have at most {MOST} characters")) } else { Ok(name) }
}

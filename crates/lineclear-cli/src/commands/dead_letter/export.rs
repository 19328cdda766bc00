//! `lineclear dead export`: all that match, as JSON, a line each.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::status;
use super::which::Which;
use crate::api::{At, query};
use crate::cmd::ask::{asking, only};
use crate::failure::{Failure, say};
use crate::show::Progress;

/// Rows of a page.
const PAGE: u32 = 1_000;

const EXAMPLES: &str = "Examples:
  lineclear dead export > dead.ndjson
  lineclear dead export --status any --kind import --file dead.ndjson
  lineclear dead export | jq -r .last_error | sort | uniq -c

Each line is a dead letter as the API has it, the newest first. It is read page by page: what dies or is resolved meanwhile may be
missing or there.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Export {
    /// Into this file, which is written over
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// awaiting, revived, acknowledged, or any
    #[arg(long, value_name = "STATUS", default_value = super::AWAITING)]
    status: String,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    at: At,
}

impl Export {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        asking(&self.at, async |api| {
            let mut asked = self.which.asked();
            asked.extend([status(&self.status), ("limit", Some(PAGE.to_string()))]);
            let (mut out, mut count, mut cursor) = (None, 0u64, None);
            // What scrolls by says by itself how far it is.
            let scrolls = self.file.is_none() && std::io::stdout().is_terminal();
            let mut progress = Progress::of_unknown("written", scrolls);
            loop {
                let mut asked = asked.clone();
                asked.push(("cursor", cursor.take()));
                let page = api.get(&format!("dead-letters{}", query(&asked))).await?;
                // Opened when the first page is there: what cannot be had leaves the file as it was.
                let out = match &mut out {
                    Some(out) => out,
                    none => none.insert(self.open()?),
                };
                for letter in only(&page) {
                    count += 1;
                    if !self.wrote(writeln!(out, "{}", letter.text()))? {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                if !self.wrote(out.flush())? {
                    return Ok(ExitCode::SUCCESS);
                }
                cursor = page.get("next").and_then(Value::as_str).map(str::to_owned);
                if cursor.is_none() {
                    break;
                }
                progress.at(count);
            }
            drop(progress);
            if let Some(file) = &self.file {
                say(&format!("{count} written to {}\n", file.display()));
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    fn open(&self) -> Result<BufWriter<Box<dyn Write>>, Failure> {
        Ok(BufWriter::new(match &self.file {
            None => Box::new(std::io::stdout()),
            Some(path) => Box::new(File::create(path).map_err(|error| self.cannot(&error))?),
        }))
    }

    /// False: the reader has seen enough.
    fn wrote(&self, written: std::io::Result<()>) -> Result<bool, Failure> {
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe && self.file.is_none() => Ok(false),
            Err(error) => Err(self.cannot(&error)),
        }
    }

    fn cannot(&self, error: &std::io::Error) -> Failure {
        let place =
            self.file.as_ref().map_or("standard output".to_owned(), |file| file.display().to_string());
        Failure::failed(format!("cannot write to {place}: {error}"))
    }
}

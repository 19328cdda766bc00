//! `lineclear dead-letter export`: dead letters as JSON lines.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::filter::DeadLetterFilter;
use super::status;
use crate::api_client::{ApiTarget, query_string};
use crate::api_command::{items, with_api};
use crate::display::Progress;
use crate::failure::Failure;
use crate::output::print_stderr;

/// Rows of a page.
const PAGE: u32 = 1_000;

const EXAMPLES: &str = "Examples:
  lineclear dead-letter export > dead-letters.ndjson
  lineclear dead-letter export --status any --kind import --file dead-letters.ndjson
  lineclear dead-letter export | jq -r .last_error | sort | uniq -c

Each line is a dead letter as the API returns it, newest first. Pages are read one after the other: dead letters that are created or
resolved meanwhile may or may not be included.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Export {
    /// Write to this file; an existing one is overwritten
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// awaiting, revived, acknowledged, or any
    #[arg(long, value_name = "STATUS", default_value = super::AWAITING)]
    status: String,
    #[command(flatten)]
    filter: DeadLetterFilter,
    #[command(flatten)]
    target: ApiTarget,
}

impl Export {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        with_api(&self.target, async |api| {
            let mut query = self.filter.query_pairs();
            query.extend([status(&self.status), ("limit", Some(PAGE.to_string()))]);
            let (mut out, mut count, mut cursor) = (None, 0u64, None);
            // Rows that scroll by show the progress themselves.
            let scrolls = self.file.is_none() && std::io::stdout().is_terminal();
            let mut progress = Progress::without_total("written", scrolls);
            loop {
                let mut query = query.clone();
                query.push(("cursor", cursor.take()));
                let page = api.get(&format!("dead-letters{}", query_string(&query))).await?;
                // Opened after the first page: a request that fails leaves the file as it was.
                let out = match &mut out {
                    Some(out) => out,
                    none => none.insert(self.open()?),
                };
                for letter in items(&page) {
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
                progress.set(count);
            }
            drop(progress);
            if let Some(file) = &self.file {
                print_stderr(&format!("{count} dead letters written to {}\n", file.display()));
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    fn open(&self) -> Result<BufWriter<Box<dyn Write>>, Failure> {
        Ok(BufWriter::new(match &self.file {
            None => Box::new(std::io::stdout()),
            Some(path) => Box::new(File::create(path).map_err(|error| self.cannot_write(&error))?),
        }))
    }

    /// False if the reader has closed the pipe.
    fn wrote(&self, written: std::io::Result<()>) -> Result<bool, Failure> {
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe && self.file.is_none() => Ok(false),
            Err(error) => Err(self.cannot_write(&error)),
        }
    }

    fn cannot_write(&self, error: &std::io::Error) -> Failure {
        let output =
            self.file.as_ref().map_or("standard output".to_owned(), |file| file.display().to_string());
        Failure::failed(format!("cannot write to {output}: {error}"))
    }
}

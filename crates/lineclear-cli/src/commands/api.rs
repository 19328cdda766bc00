//! `lineclear api`: a request as it is, with who asks filled in.

use std::process::ExitCode;

use clap::Args;

use super::ask::{asking, json_of};
use super::until_stopped::until_stopped;
use crate::api::{At, Stream};
use crate::failure::Failure;
use crate::output::{Told, print, write_on};

const EXAMPLES: &str = "Examples:
  lineclear api GET /jobs
  lineclear api GET '/jobs?q=state:dead'
  lineclear api POST /manifests/nightly/run
  lineclear api PUT /groups/etl --body '{\"limit\": 4}'
  lineclear api GET /jobs --db lineclear.db
  lineclear api GET /events

A path without /api/v1 is below it. `GET /api/openapi.json` lists all that there is. What goes on, such as
/events, is printed as it comes, until you stop it.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Raw {
    /// GET, POST, PUT, PATCH or DELETE
    method: String,
    /// Such as /jobs/42
    path: String,
    /// JSON; @FILE reads a file, - standard input
    #[arg(long, value_name = "JSON")]
    body: Option<String>,
    /// Such as 'If-Match: "3"'
    #[arg(long = "header", short = 'H', value_name = "HEADER")]
    headers: Vec<String>,
    #[command(flatten)]
    at: At,
}

impl Raw {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let body = self.body.as_deref().map(|text| json_of("--body", text)).transpose()?;
        let body = body.map(String::into_bytes);
        let split = |header: &'_ str| -> Result<(String, String), Failure> {
            let (name, value) = header
                .split_once(':')
                .ok_or_else(|| Failure::usage(format!("--header: {header:?} has no colon in it")))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        let headers: Vec<_> = self.headers.iter().map(|header| split(header)).collect::<Result<_, _>>()?;
        let method = self.method.to_uppercase();
        asking(&self.at, async |api| {
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let stream = api.stream(&method, &self.path, body, &headers).await?;
            if stream.is_of_events() {
                return until_stopped(as_it_comes(stream.goes_on())).await;
            }
            let answer = stream.whole().await?;
            // As it came, whatever it is; only the last line of a text gets an end if it has none.
            write_on(&answer.body)?;
            if std::str::from_utf8(&answer.body).is_ok_and(|text| !text.is_empty() && !text.ends_with('\n')) {
                print("\n")?;
            }
            if answer.status >= 400 { Err(answer.failure()) } else { Ok(ExitCode::SUCCESS) }
        })
    }
}

async fn as_it_comes(mut stream: Stream) -> Result<(), Failure> {
    while let Some(piece) = stream.piece().await? {
        if write_on(&piece)? == Told::Nobody {
            break;
        }
    }
    Ok(())
}

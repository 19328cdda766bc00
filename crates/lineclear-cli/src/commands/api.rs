//! `lineclear api`: one request to the HTTP API, with the token filled in.

use std::process::ExitCode;

use clap::Args;

use crate::api_client::{ApiTarget, ResponseStream};
use crate::api_command::{read_json_arg, with_api};
use crate::failure::Failure;
use crate::output::{Reader, print, try_write};
use crate::until_interrupted::until_interrupted;

const EXAMPLES: &str = "Examples:
  lineclear api GET /jobs
  lineclear api GET '/jobs?q=state:dead'
  lineclear api POST /manifests/nightly/run
  lineclear api PUT /groups/etl --body '{\"limit\": 4}'
  lineclear api GET /jobs --db lineclear.db
  lineclear api GET /events

Paths are relative to /api/v1. `GET /api/openapi.json` describes the whole API. Streams such as /events are printed
until you stop them.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApiRequest {
    /// GET, POST, PUT, PATCH or DELETE
    method: String,
    /// Such as /jobs/42
    path: String,
    /// Body as JSON; @FILE reads a file, - standard input
    #[arg(long, value_name = "JSON")]
    body: Option<String>,
    /// Header such as 'If-Match: "3"'; may be repeated
    #[arg(long = "header", short = 'H', value_name = "HEADER")]
    headers: Vec<String>,
    #[command(flatten)]
    target: ApiTarget,
}

impl ApiRequest {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let body = self.body.as_deref().map(|text| read_json_arg("--body", text)).transpose()?;
        let body = body.map(String::into_bytes);
        let split = |header: &'_ str| -> Result<(String, String), Failure> {
            let (name, value) = header
                .split_once(':')
                .ok_or_else(|| Failure::usage(format!("--header: {header:?} has no colon")))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        let headers: Vec<_> = self.headers.iter().map(|header| split(header)).collect::<Result<_, _>>()?;
        let method = self.method.to_uppercase();
        with_api(&self.target, async |api| {
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let stream = api.stream(&method, &self.path, body, &headers).await?;
            if stream.is_event_stream() {
                return until_interrupted(print_chunks(stream.allow_pauses())).await;
            }
            let response = stream.read_all().await?;
            // Printed as received; only text without a final line break gets one.
            try_write(&response.body)?;
            if std::str::from_utf8(&response.body).is_ok_and(|text| !text.is_empty() && !text.ends_with('\n'))
            {
                print("\n")?;
            }
            if response.status >= 400 { Err(response.failure()) } else { Ok(ExitCode::SUCCESS) }
        })
    }
}

async fn print_chunks(mut stream: ResponseStream) -> Result<(), Failure> {
    while let Some(chunk) = stream.next_chunk().await? {
        if try_write(&chunk)? == Reader::Closed {
            break;
        }
    }
    Ok(())
}

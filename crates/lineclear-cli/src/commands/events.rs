//! `lineclear events`: the stream of events, a line each.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api_client::{ApiClient, ApiTarget, Json, ResponseStream, query_string};
use crate::api_command::with_api;
use crate::config::parse_duration;
use crate::display::OutputStyle;
use crate::failure::Failure;
use crate::output::print_stderr;
use crate::output::{Reader, sanitize, try_print};
use crate::until_interrupted::until_interrupted;

/// Delay before reconnecting.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);
/// Longest event.
const BYTES_MAX: usize = 1024 * 1024;

const EXAMPLES: &str = "Examples:
  lineclear events
  lineclear events --types 'job.failed,dead.created,lock.*'
  lineclear events --since 10m --json
  lineclear events --json | jq -c 'select(.type == \"job.failed\")'

Runs until you stop it (Ctrl-C). If the connection breaks, it reconnects and continues after the last event; the event `gap` says that
some are missing. job.queued and job.started come from the server's own node only. audit.written requires the scope admin.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Events {
    /// Comma-separated types; job.* matches all that begin with job.
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    /// Include events since this long ago, such as 10m; at most 1h
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "after")]
    since: Option<Duration>,
    /// Include events after the event with this id
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    #[command(flatten)]
    target: ApiTarget,
}

/// The id of an event so long ago, by the database's clock: that of this machine may differ.
async fn ago(api: &ApiClient, since: Duration) -> Result<String, Failure> {
    let now = api.get("stats/now").await?;
    let now: Timestamp =
        now.get("at").and_then(Value::as_str).and_then(|at| at.parse().ok()).unwrap_or_else(Timestamp::now);
    let since = SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX);
    Ok(now.saturating_sub(since).map_or(0, |then| then.as_microsecond()).max(0).to_string())
}

/// Why reading ended.
enum StreamEnd {
    /// The reader of standard output has closed it.
    OutputClosed,
    /// The server has ended the stream.
    Disconnected,
}

impl Events {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        with_api(&self.target, async |api| until_interrupted(self.follow(api)).await)
    }

    async fn follow(&self, api: &ApiClient) -> Result<(), Failure> {
        let ago = match self.since {
            Some(since) => Some(ago(api, since).await?),
            None => None,
        };
        let mut last = self.after.clone().or(ago);
        let mut stream = self.open(api, last.as_deref()).await?;
        loop {
            match self.read(stream, &mut last).await? {
                StreamEnd::OutputClosed => return Ok(()),
                StreamEnd::Disconnected => print_stderr("disconnected; reconnecting\n"),
            }
            stream = loop {
                tokio::time::sleep(RECONNECT_AFTER).await;
                match self.open(api, last.as_deref()).await {
                    Ok(stream) => break stream,
                    // A server that refuses would refuse again.
                    Err(failure) if ![6, 7].contains(&failure.code()) => return Err(failure),
                    Err(_) => {}
                }
            };
            print_stderr("reconnected\n");
        }
    }

    async fn open(&self, api: &ApiClient, last: Option<&str>) -> Result<ResponseStream, Failure> {
        let query = query_string(&[("types", self.types.clone()), ("after", last.map(str::to_owned))]);
        let stream = api.stream("GET", &format!("events{query}"), None, &[]).await?;
        if stream.status() >= 400 {
            Err(stream.read_all().await?.failure())
        } else {
            Ok(stream.allow_pauses())
        }
    }

    async fn read(
        &self,
        mut stream: ResponseStream,
        last: &mut Option<String>,
    ) -> Result<StreamEnd, Failure> {
        let (mut rest, style) = (Vec::new(), OutputStyle::detect());
        while let Ok(Some(chunk)) = stream.next_chunk().await {
            rest.extend_from_slice(&chunk);
            while let Some(end) = rest.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = rest.drain(..end + 2).collect();
                let event = Event::read(&String::from_utf8_lossy(&block));
                if event.id.is_some() {
                    last.clone_from(&event.id);
                }
                let line = if self.target.json { event.json() } else { event.line(&style) };
                if let Some(line) = line
                    && try_print(&line)? == Reader::Closed
                {
                    return Ok(StreamEnd::OutputClosed);
                }
            }
            if rest.len() > BYTES_MAX {
                return Err(Failure::failed("the response is not a stream of events"));
            }
        }
        Ok(StreamEnd::Disconnected)
    }
}

/// An event as received.
#[derive(Debug, Default, PartialEq)]
struct Event {
    kind: Option<String>,
    id: Option<String>,
    data: String,
}

impl Event {
    fn read(block: &str) -> Event {
        let mut event = Event::default();
        for line in block.lines() {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match name {
                "event" => event.kind = Some(value),
                "id" => event.id = Some(value),
                "data" => event.data.push_str(&value),
                _ => {}
            }
        }
        event
    }

    fn data(&self) -> Json {
        Json::parse(self.data.clone()).unwrap_or_default()
    }

    /// A line of JSON: type, id, and the data as the API sends it.
    fn json(&self) -> Option<String> {
        let (kind, id) = (json!(self.kind.as_ref()?), json!(self.id));
        Some(format!("{{\"type\":{kind},\"id\":{id},\"data\":{}}}\n", self.data().text()))
    }

    /// A line of text: time, type, subject.
    fn line(&self, style: &OutputStyle) -> Option<String> {
        let kind = sanitize(self.kind.as_ref()?);
        let data = self.data();
        let text = |name: &str| match data.get(name) {
            Some(Value::String(text)) => Some(sanitize(text)),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let at = text("at").unwrap_or_else(|| Timestamp::now().to_string());
        let names = [
            ("job", "job "),
            ("dead_letter", "dead letter "),
            ("lock", "lock "),
            ("name", "node "),
            ("who", ""),
            ("kind", ""),
            ("holder", "by "),
            ("action", ""),
            ("target", ""),
            ("reason", "events are missing: "),
        ];
        let about: Vec<String> =
            names.iter().filter_map(|(name, word)| text(name).map(|text| format!("{word}{text}"))).collect();
        let about = about.join(if style.is_terminal { "  " } else { "\t" });
        Some(match style.is_terminal {
            true => format!("{at:<27}  {kind:<14}  {about}\n"),
            false => format!("{at}\t{kind}\t{about}\n"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_from_its_lines() {
        let event = Event::read(
            "event: job.failed\nid: 17\ndata: {\"at\":\"2026-01-01T00:00:00Z\",\"job\":\"4\",\"kind\":\"a\\u001bb\"}\n\n",
        );
        assert_eq!((event.kind.as_deref(), event.id.as_deref()), (Some("job.failed"), Some("17")));
        let style = OutputStyle { is_terminal: false, ..OutputStyle::detect() };
        assert_eq!(event.line(&style).unwrap(), "2026-01-01T00:00:00Z\tjob.failed\tjob 4\ta\u{fffd}b\n");
        let silence = Event::read(": \nid: 18\n\n");
        assert_eq!((silence.json(), silence.id.as_deref()), (None, Some("18")), "only the position advances");
    }
}

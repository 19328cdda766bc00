//! `lineclear events`: what happens, a line each, until you stop it.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::ask::asking;
use super::until_stopped::until_stopped;
use crate::api::{Api, At, Json, Stream, query};
use crate::config::span;
use crate::failure::{Failure, say};
use crate::output::{Told, plain, print_on};
use crate::show::Look;

/// How long to wait before a stream that broke off is taken up again.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest event.
const BYTES_MAX: usize = 1024 * 1024;

const EXAMPLES: &str = "Examples:
  lineclear events
  lineclear events --types 'job.failed,dead.created,lock.*'
  lineclear events --since 10m --json
  lineclear events --json | jq -c 'select(.type == \"job.failed\")'

It goes on until you stop it (Ctrl-C). When the server goes away, it waits and goes on where it was; `gap` says that something is missing.
job.queued and job.started are those of the server's own node alone. audit.written needs a token with the scope admin.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Events {
    /// Only these, with commas between them; job.* is all that begin so
    #[arg(long, value_name = "TYPES")]
    types: Option<String>,
    /// Also what happened in this time before now, such as 10m; an hour at most
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with = "after")]
    since: Option<Duration>,
    /// Also what happened after the event with this id
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    #[command(flatten)]
    at: At,
}

/// Why a stream is not read any more.
enum Over {
    /// Nobody reads what is printed.
    Unread,
    /// The server has ended it.
    BrokeOff,
}

impl Events {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        asking(&self.at, async |api| until_stopped(self.follow(api)).await)
    }

    async fn follow(&self, api: &Api) -> Result<(), Failure> {
        let ago = self.since.map(|since| {
            let since = SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX);
            Timestamp::now().saturating_sub(since).map_or(0, |then| then.as_microsecond()).max(0).to_string()
        });
        let mut last = self.after.clone().or(ago);
        let mut stream = self.open(api, last.as_deref()).await?;
        loop {
            match self.read(stream, &mut last).await? {
                Over::Unread => return Ok(()),
                Over::BrokeOff => say("the stream broke off; going on as soon as the server is there\n"),
            }
            stream = loop {
                tokio::time::sleep(AGAIN).await;
                match self.open(api, last.as_deref()).await {
                    Ok(stream) => break stream,
                    // Whoever is there and refuses would refuse the next time, too.
                    Err(failure) if ![6, 7].contains(&failure.code()) => return Err(failure),
                    Err(_) => {}
                }
            };
            say("the server is there again\n");
        }
    }

    async fn open(&self, api: &Api, last: Option<&str>) -> Result<Stream, Failure> {
        let asked = query(&[("types", self.types.clone()), ("after", last.map(str::to_owned))]);
        let stream = api.stream("GET", &format!("events{asked}"), None, &[]).await?;
        if stream.status() >= 400 { Err(stream.whole().await?.failure()) } else { Ok(stream.goes_on()) }
    }

    async fn read(&self, mut stream: Stream, last: &mut Option<String>) -> Result<Over, Failure> {
        let (mut rest, look) = (Vec::new(), Look::here());
        while let Ok(Some(piece)) = stream.piece().await {
            rest.extend_from_slice(&piece);
            while let Some(end) = rest.windows(2).position(|two| two == b"\n\n") {
                let block: Vec<u8> = rest.drain(..end + 2).collect();
                let event = Event::read(&String::from_utf8_lossy(&block));
                if event.id.is_some() {
                    last.clone_from(&event.id);
                }
                let line = if self.at.json { event.json() } else { event.line(&look) };
                if let Some(line) = line
                    && print_on(&line)? == Told::Nobody
                {
                    return Ok(Over::Unread);
                }
            }
            if rest.len() > BYTES_MAX {
                return Err(Failure::failed("what comes from there is no stream of events"));
            }
        }
        Ok(Over::BrokeOff)
    }
}

/// An event as it came.
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

    /// What a program gets: what, where to go on, and the event as the API has it.
    fn json(&self) -> Option<String> {
        let (kind, id) = (json!(self.kind.as_ref()?), json!(self.id));
        Some(format!("{{\"type\":{kind},\"id\":{id},\"data\":{}}}\n", self.data().text()))
    }

    /// When, what, about which.
    fn line(&self, look: &Look) -> Option<String> {
        let kind = plain(self.kind.as_ref()?);
        let data = self.data();
        let text = |name: &str| match data.get(name) {
            Some(Value::String(text)) => Some(plain(text)),
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
            ("reason", "something is missing: "),
        ];
        let about: Vec<String> =
            names.iter().filter_map(|(name, word)| text(name).map(|text| format!("{word}{text}"))).collect();
        let about = about.join(if look.is_terminal { "  " } else { "\t" });
        Some(match look.is_terminal {
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
        let look = Look { is_terminal: false, ..Look::here() };
        assert_eq!(event.line(&look).unwrap(), "2026-01-01T00:00:00Z\tjob.failed\tjob 4\ta\u{fffd}b\n");
        let silence = Event::read(": \nid: 18\n\n");
        assert_eq!((silence.json(), silence.id.as_deref()), (None, Some("18")), "only the place moves on");
    }
}

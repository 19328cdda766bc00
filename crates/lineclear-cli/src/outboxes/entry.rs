//! One outbox in the settings.

use std::time::Duration;

use lineclear::model::Name;
use lineclear::outbox::{OutboxError, OutboxOptions, PARTITIONS_MAX, Webhook};
use serde::Deserialize;
use serde_json::Value;

use crate::config::parse_duration;
use crate::submitters::{SecretEntry, all_secrets};

/// As it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Entry {
    sink: String,
    kind: Option<String>,
    url: Option<String>,
    secrets: Vec<Value>,
    secrets_file: Option<String>,
    unsigned: bool,
    partitions: Option<u32>,
    concurrency: Option<usize>,
    attempts_max: Option<u32>,
    timeout: Option<String>,
    lock_ttl: Option<String>,
    keep_delivered: Option<String>,
    keep_dedup_keys: Option<String>,
    keep_dead: Option<String>,
}

/// Checked.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) target: Target,
    pub(super) options: OutboxOptions,
    /// How many partitions the outbox is to have; none: as many as it has.
    pub(super) partitions: Option<u32>,
}

/// Where the messages go.
#[derive(Debug)]
pub(super) enum Target {
    /// Each becomes a job of this kind, or of the kind that is named like its topic.
    Jobs { kind: Option<Name> },
    /// Each becomes a call.
    Webhook { url: String, secrets: Vec<SecretEntry> },
}

impl Entry {
    /// Checks all of it.
    pub(super) fn check(self) -> Result<Checked, Vec<String>> {
        let mut wrong = Vec::new();
        let (options, partitions) = (self.options(&mut wrong), self.partitions);
        if partitions.is_some_and(|partitions| !(1..=PARTITIONS_MAX).contains(&partitions)) {
            wrong.push(format!("`partitions` must be 1 to {PARTITIONS_MAX}"));
        }
        let target = match self.sink.as_str() {
            "jobs" => Some(self.jobs(&mut wrong)),
            "webhook" => Some(self.webhook(&mut wrong)),
            _ => {
                wrong.push("`sink` must be \"jobs\" or \"webhook\"".to_owned());
                None
            }
        };
        match target {
            Some(target) if wrong.is_empty() => Ok(Checked { target, options, partitions }),
            _ => Err(wrong),
        }
    }

    fn options(&self, wrong: &mut Vec<String>) -> OutboxOptions {
        let mut time = |name: &str, text: &Option<String>, default: Duration| match text
            .as_deref()
            .map(parse_duration)
        {
            None => default,
            Some(Ok(time)) => time,
            Some(Err(why)) => {
                wrong.push(format!("`{name}`: {why}"));
                default
            }
        };
        let defaults = OutboxOptions::default();
        let options = OutboxOptions {
            timeout: time("timeout", &self.timeout, defaults.timeout),
            lock_ttl: time("lock_ttl", &self.lock_ttl, defaults.lock_ttl),
            keep_delivered: time("keep_delivered", &self.keep_delivered, defaults.keep_delivered),
            keep_dedup_keys: time("keep_dedup_keys", &self.keep_dedup_keys, defaults.keep_dedup_keys),
            keep_dead: time("keep_dead", &self.keep_dead, defaults.keep_dead),
            concurrency: self.concurrency.unwrap_or(defaults.concurrency),
            attempts_max: self.attempts_max.unwrap_or(defaults.attempts_max),
            ..defaults
        };
        match options.check() {
            Ok(()) => {}
            Err(OutboxError::Refused { what, why }) => wrong.push(format!("`{what}` {why}")),
            Err(error) => wrong.push(format!("`lock_ttl`: {error}")),
        }
        options
    }

    fn jobs(self, wrong: &mut Vec<String>) -> Target {
        for (name, is_set) in [
            ("url", self.url.is_some()),
            ("secrets", !self.secrets.is_empty()),
            ("secrets_file", self.secrets_file.is_some()),
            ("unsigned", self.unsigned),
        ] {
            if is_set {
                wrong.push(format!("`{name}` belongs to the sink \"webhook\""));
            }
        }
        let kind = self.kind.map(Name::new).transpose().unwrap_or_else(|bad| {
            wrong.push(format!("`kind`: {bad}"));
            None
        });
        Target::Jobs { kind }
    }

    fn webhook(self, wrong: &mut Vec<String>) -> Target {
        if self.kind.is_some() {
            wrong.push("`kind` belongs to the sink \"jobs\"".to_owned());
        }
        match &self.url {
            None => wrong.push("`url` is missing: where messages are sent".to_owned()),
            Some(url) => {
                if let Err(bad) = Webhook::new(url, []) {
                    wrong.push(bad.to_string());
                }
            }
        }
        let secrets = all_secrets(self.secrets, self.secrets_file, self.unsigned, wrong);
        Target::Webhook { url: self.url.unwrap_or_default(), secrets }
    }
}

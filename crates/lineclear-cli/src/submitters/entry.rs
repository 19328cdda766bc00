//! One submitter in the settings.

use std::time::Duration;

use lineclear::model::Name;
use lineclear::model::secret::{SecretName, without_value};
use lineclear::outbound::Secret;
use lineclear::submitters::HttpPush;
use serde::Deserialize;
use serde_json::Value;

use super::http_push;
use crate::config::parse_duration;

/// Most secrets, endpoints and kinds of one submitter.
const SECRETS_MAX: usize = 8;
const URLS_MAX: usize = 100;
const KINDS_MAX: usize = 1_000;
pub(super) const PUSH: &str = "push";
/// The types of submitters.
const TYPES: [&str; 2] = [PUSH, "pull"];

/// As it is written.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum Entry {
    Push {
        url: Option<String>,
        #[serde(default)]
        urls: Vec<String>,
        #[serde(default)]
        kinds: Vec<String>,
        #[serde(default)]
        default: bool,
        #[serde(default)]
        secrets: Vec<Value>,
        secrets_file: Option<String>,
        #[serde(default)]
        unsigned: bool,
        max_concurrent_dispatch: Option<u32>,
        timeout: Option<String>,
        callback_url: Option<String>,
    },
    Pull {
        #[serde(default)]
        kinds: Vec<String>,
        #[serde(default)]
        default: bool,
    },
}

/// Checked.
#[derive(Debug)]
pub(super) enum Submitter {
    Push(Push),
    Pull(Routed),
}

#[derive(Debug)]
pub(super) struct Push {
    pub(super) urls: Vec<String>,
    pub(super) secrets: Vec<SecretEntry>,
    pub(super) max_concurrent_dispatch: Option<u32>,
    pub(super) timeout: Option<Duration>,
    pub(super) callback_url: Option<String>,
    routed: Routed,
}

/// Which jobs go there.
#[derive(Debug)]
pub(super) struct Routed {
    kinds: Vec<String>,
    is_default: bool,
}

/// Where a secret is.
#[derive(Clone, Debug)]
pub(crate) enum SecretEntry {
    Value(Secret),
    /// In `secrets_dir` or the environment.
    Named(SecretName),
    /// One for each line.
    File(String),
}

impl Submitter {
    pub(super) fn kinds(&self) -> &[String] {
        &self.routed().kinds
    }

    pub(super) fn is_default(&self) -> bool {
        self.routed().is_default
    }

    fn routed(&self) -> &Routed {
        match self {
            Submitter::Push(push) => &push.routed,
            Submitter::Pull(routed) => routed,
        }
    }
}

/// Reads and checks an entry; the error names everything that is wrong with it.
pub(super) fn read(entry: &Value) -> Result<Submitter, Vec<String>> {
    if !TYPES.contains(&type_of(entry)) {
        return Err(vec!["`type` must be \"push\" or \"pull\"".to_owned()]);
    }
    let entry = Entry::deserialize(entry);
    entry.map_err(|error| vec![without_value(&error.to_string())])?.check()
}

/// The type of an entry, and whether it is the default and which kinds it names: also of one that cannot be read.
pub(super) fn type_of(entry: &Value) -> &str {
    entry.get("type").and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn is_default(entry: &Value) -> bool {
    entry.get("default") == Some(&Value::Bool(true))
}

pub(super) fn kinds(entry: &Value) -> impl Iterator<Item = &str> {
    entry.get("kinds").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

impl Entry {
    /// Checks all of it.
    fn check(self) -> Result<Submitter, Vec<String>> {
        let mut wrong = Vec::new();
        let submitter = match self {
            Entry::Pull { kinds, default } => Submitter::Pull(routed(kinds, default, &mut wrong)),
            Entry::Push {
                url,
                urls,
                kinds,
                default,
                secrets,
                secrets_file,
                unsigned,
                max_concurrent_dispatch,
                timeout,
                callback_url,
            } => {
                if max_concurrent_dispatch
                    .is_some_and(|calls| !(1..=HttpPush::CONCURRENT_MAX).contains(&calls))
                {
                    wrong.push(format!(
                        "`max_concurrent_dispatch` must be between 1 and {}",
                        HttpPush::CONCURRENT_MAX
                    ));
                }
                let push = Push {
                    urls: all_urls(url, urls, &mut wrong),
                    secrets: all_secrets(secrets, secrets_file, unsigned, &mut wrong),
                    max_concurrent_dispatch,
                    timeout: timeout.and_then(|text| checked_timeout(&text, &mut wrong)),
                    callback_url,
                    routed: routed(kinds, default, &mut wrong),
                };
                if !push.urls.is_empty()
                    && let Err(why) = http_push(&push)
                {
                    wrong.push(why);
                }
                Submitter::Push(push)
            }
        };
        if wrong.is_empty() { Ok(submitter) } else { Err(wrong) }
    }
}

fn routed(kinds: Vec<String>, is_default: bool, wrong: &mut Vec<String>) -> Routed {
    if kinds.is_empty() && !is_default {
        wrong.push("`kinds` must name at least one kind".to_owned());
    }
    if kinds.len() > KINDS_MAX {
        wrong.push(format!("`kinds` must name at most {KINDS_MAX} kinds"));
    }
    for kind in &kinds {
        if let Err(bad) = Name::new(kind.clone()) {
            wrong.push(format!("`kinds`: {kind:?}: {bad}"));
        }
    }
    Routed { kinds, is_default }
}

fn all_urls(url: Option<String>, urls: Vec<String>, wrong: &mut Vec<String>) -> Vec<String> {
    if url.is_some() != urls.is_empty() {
        wrong.push("set either `url`, or `urls` for several equal workers".to_owned());
    }
    if urls.len() > URLS_MAX {
        wrong.push(format!("`urls` must have at most {URLS_MAX} URLs"));
    }
    url.into_iter().chain(urls).collect()
}

/// Secrets with which a receiver verifies calls, unless it need not.
pub(crate) fn all_secrets(
    given: Vec<Value>,
    file: Option<String>,
    unsigned: bool,
    wrong: &mut Vec<String>,
) -> Vec<SecretEntry> {
    let is_signed = !given.is_empty() || file.is_some();
    if is_signed == unsigned {
        wrong.push(
            "set `secrets` or `secrets_file`, with which receivers verify calls; or `unsigned = true` if they need not".to_owned(),
        );
    }
    if given.len() > SECRETS_MAX {
        wrong.push(format!("`secrets` must have at most {SECRETS_MAX} secrets"));
    }
    let mut secrets = Vec::new();
    for entry in given {
        match secret(&entry) {
            Ok(secret) => secrets.push(secret),
            Err(why) => wrong.push(format!("`secrets`: {why}")),
        }
    }
    secrets.extend(file.map(SecretEntry::File));
    secrets
}

/// `whsec_…`, or `{ "$secret" = "billing-push" }`.
fn secret(entry: &Value) -> Result<SecretEntry, String> {
    let named = entry
        .as_object()
        .filter(|object| object.len() == 1)
        .and_then(|object| object.get("$secret")?.as_str());
    match (entry, named) {
        (Value::String(text), _) => text
            .parse()
            .map(SecretEntry::Value)
            .map_err(|bad: lineclear::outbound::BadSecret| bad.to_string()),
        (_, Some(name)) => SecretName::new(name).map(SecretEntry::Named).map_err(|bad| bad.to_string()),
        _ => Err("each must be a text such as whsec_…, or name a secret: { \"$secret\" = \"billing-push\" }"
            .to_owned()),
    }
}

/// The secrets in a file or a credential: one for each line.
pub(super) fn secrets_in(text: &str) -> Result<Vec<Secret>, String> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() || lines.len() > SECRETS_MAX {
        return Err(format!("it must have 1 to {SECRETS_MAX} secrets, one for each line"));
    }
    lines
        .into_iter()
        .map(|line| line.parse().map_err(|bad: lineclear::outbound::BadSecret| bad.to_string()))
        .collect()
}

fn checked_timeout(text: &str, wrong: &mut Vec<String>) -> Option<Duration> {
    match parse_duration(text) {
        Ok(timeout) if timeout <= HttpPush::TIMEOUT_MAX => return Some(timeout),
        Ok(_) => wrong.push(
            "`timeout` must be at most 1h; a worker that needs longer accepts the job with 202".to_owned(),
        ),
        Err(why) => wrong.push(format!("`timeout`: {why}")),
    }
    None
}

/// The setting, without its secrets.
pub(crate) fn masked(text: &str) -> String {
    let Ok(Value::Object(mut all)) = serde_json::from_str(text) else { return "•••".to_owned() };
    for entry in all.values_mut() {
        let secrets = entry.get_mut("secrets").and_then(Value::as_array_mut);
        secrets
            .into_iter()
            .flatten()
            .filter(|secret| secret.is_string())
            .for_each(|secret| *secret = "•••".into());
    }
    Value::Object(all).to_string()
}

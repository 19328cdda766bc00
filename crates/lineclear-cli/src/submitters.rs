//! The submitters that the settings name: `[submitter.billing]` in `lineclear.toml`.

mod entry;

use std::collections::BTreeMap;

use lineclear::node::Builder;
use lineclear::outbound::{Breakers, Secret};
use lineclear::secrets::SecretSources;
use lineclear::submitters::HttpPush;
use serde_json::Value;

use crate::config::{Config, read_private};
use crate::failure::Failure;
use entry::{Push, Submitter};
pub(crate) use entry::{SecretEntry, all_secrets, masked};

/// The word for workers that pull in the engine's routing.
const PULL: &str = "pull";
/// Names that the engine has for submitters of its own.
const RESERVED: [&str; 5] = ["local", "inline", PULL, "main", "push"];
/// Most submitters.
const SUBMITTERS_MAX: usize = 100;

/// Submitters by name, checked; their secrets are not read yet.
#[derive(Debug, Default)]
pub(crate) struct Submitters(BTreeMap<String, Submitter>);

impl Submitters {
    /// Reads the setting, as JSON. The error names everything that is wrong.
    pub(crate) fn parse(text: &str) -> Result<Submitters, String> {
        if text.trim().is_empty() {
            return Ok(Submitters::default());
        }
        let example =
            r#"{"billing": {"type": "push", "url": "https://billing.internal/jobs", "kinds": ["invoice"]}}"#;
        let entries: BTreeMap<String, Value> =
            serde_json::from_str(text).map_err(|_| format!("must be a table such as {example}"))?;
        let mut wrong = Vec::new();
        if entries.len() > SUBMITTERS_MAX {
            wrong.push(format!("at most {SUBMITTERS_MAX} submitters"));
        }
        let mut submitters = BTreeMap::new();
        for (name, entry) in &entries {
            match entry::read(entry) {
                Ok(submitter) => drop(submitters.insert(name.clone(), submitter)),
                Err(all) => wrong.extend(all.into_iter().map(|why| format!("{name}: {why}"))),
            }
        }
        wrong.extend(conflicts(&entries));
        if wrong.is_empty() { Ok(Submitters(submitters)) } else { Err(wrong.join("; ")) }
    }

    /// Adds them to a node.
    pub(crate) fn add(
        &self,
        mut builder: Builder,
        secrets: &PushSecrets,
        breakers: &Breakers,
    ) -> Result<Builder, Failure> {
        for (name, submitter) in &self.0 {
            let to = match submitter {
                Submitter::Pull(_) => PULL,
                Submitter::Push(push) => {
                    let secrets = secrets.0.get(name).cloned().unwrap_or_default();
                    let is_unsigned = push.secrets.is_empty();
                    let push =
                        http_push(push).map_err(|why| Failure::usage(format!("submitter {name}: {why}")))?;
                    let push = if is_unsigned { push.unsigned() } else { push.secrets(secrets) };
                    builder = builder.submitter(name, push.breakers(breakers.clone()));
                    name
                }
            };
            builder = builder.submit_to(to, submitter.kinds().iter().map(String::as_str));
            if submitter.is_default() {
                builder = builder.default_submitter(to);
            }
        }
        Ok(builder)
    }

    /// Reads the secrets of all push submitters. The error names all that are missing.
    pub(crate) async fn read_secrets(
        &self,
        config: &Config,
        sources: &SecretSources,
    ) -> Result<PushSecrets, Failure> {
        let (mut all, mut wrong) = (BTreeMap::new(), Vec::new());
        for (name, submitter) in &self.0 {
            let Submitter::Push(push) = submitter else { continue };
            let mut secrets = Vec::new();
            for secret in &push.secrets {
                match read_secret(secret, sources).await {
                    Ok(found) => secrets.extend(found),
                    Err(why) => wrong.push(format!("{name}: {why}")),
                }
            }
            all.insert(name.clone(), secrets);
        }
        if wrong.is_empty() { Ok(PushSecrets(all)) } else { Err(config.bad("submitter", &wrong.join("; "))) }
    }
}

/// What two of them cannot both have, and names that none can have. Looks at entries that are wrong otherwise, too.
fn conflicts(entries: &BTreeMap<String, Value>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut routed: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, entry) in entries {
        if entry::type_of(entry) == entry::PUSH && RESERVED.contains(&name.as_str()) {
            wrong.push(format!("{name}: this name is reserved; choose another"));
        }
        for kind in entry::kinds(entry) {
            if let Some(before) = routed.insert(kind, name) {
                wrong.push(format!("kind {kind} is routed twice: to {before} and to {name}"));
            }
        }
    }
    let defaults = entries.iter().filter(|(_, entry)| entry::is_default(entry));
    let defaults: Vec<&str> = defaults.map(|(name, _)| name.as_str()).collect();
    if defaults.len() > 1 {
        let defaults = defaults.join(" and ");
        wrong.push(format!("`default` must be true for one submitter only, not for {defaults}"));
    }
    wrong
}

/// The secrets that sign the calls of each push submitter.
#[derive(Debug, Default)]
pub(crate) struct PushSecrets(BTreeMap<String, Vec<Secret>>);

/// The secrets that an entry stands for.
pub(crate) async fn read_secret(
    secret: &SecretEntry,
    sources: &SecretSources,
) -> Result<Vec<Secret>, String> {
    match secret {
        SecretEntry::Value(secret) => Ok(vec![secret.clone()]),
        SecretEntry::Named(name) => {
            let text = sources.read(name).await.map_err(|error| format!("secret {name}: {error}"))?;
            entry::secrets_in(&text).map_err(|why| format!("secret {name}: {why}"))
        }
        SecretEntry::File(file) => {
            let text = read_private(file)?;
            entry::secrets_in(&text).map_err(|why| format!("{file}: {why}"))
        }
    }
}

fn http_push(push: &Push) -> Result<HttpPush, String> {
    let text = |bad: lineclear::submitters::BadPush| bad.to_string();
    let mut submitter = HttpPush::to_any_of(push.urls.iter().map(String::as_str)).map_err(text)?;
    if let Some(calls) = push.max_concurrent_dispatch {
        submitter = submitter.max_concurrent_dispatch(calls);
    }
    if let Some(timeout) = push.timeout {
        submitter = submitter.timeout(timeout);
    }
    match &push.callback_url {
        Some(url) => submitter.callback(url).map_err(|bad| format!("`callback_url`: {bad}")),
        None => Ok(submitter),
    }
}

#[cfg(test)]
mod tests;

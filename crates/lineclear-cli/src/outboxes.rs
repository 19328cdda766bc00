//! The outboxes that a server runs: `[outbox.main]` in `lineclear.toml`.

mod entry;

use std::collections::BTreeMap;

use lineclear::Node;
use lineclear::outbound::Secret;
use lineclear::outbox::{Jobs, Outbox, Runner, Webhook};

use crate::config::Config;
use crate::failure::Failure;
use crate::kinds;
use crate::submitters::read_secret;
use entry::{Checked, Entry, Target};

/// Most outboxes of a server.
const OUTBOXES_MAX: usize = 100;

/// Outboxes by name, checked; their secrets are not read yet.
#[derive(Debug, Default)]
pub(crate) struct Outboxes(BTreeMap<String, Checked>);

impl Outboxes {
    /// Reads the setting, as JSON. The error names everything that is wrong.
    pub(crate) fn parse(text: &str) -> Result<Outboxes, String> {
        if text.trim().is_empty() {
            return Ok(Outboxes::default());
        }
        let entries: BTreeMap<String, serde_json::Value> = serde_json::from_str(text)
            .map_err(|_| r#"must be a table such as {"main": {"sink": "jobs"}}"#.to_owned())?;
        let mut wrong = Vec::new();
        if entries.len() > OUTBOXES_MAX {
            wrong.push(format!("at most {OUTBOXES_MAX} outboxes"));
        }
        let mut outboxes = BTreeMap::new();
        for (name, entry) in entries {
            let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if name.is_empty() || name.len() > 100 || !name.chars().all(fits) {
                wrong.push(format!("{name:?}: a name has 1 to 100 letters, digits, `-`, `_` and `.`"));
            }
            // The message of serde may repeat a value, which may be a secret.
            let entry = serde_json::from_value::<Entry>(entry)
                .map_err(|error| vec![lineclear::model::secret::without_value(&error.to_string())]);
            match entry.and_then(Entry::check) {
                Ok(checked) => drop(outboxes.insert(name, checked)),
                Err(all) => wrong.extend(all.into_iter().map(|why| format!("{name}: {why}"))),
            }
        }
        if wrong.is_empty() { Ok(Outboxes(outboxes)) } else { Err(wrong.join("; ")) }
    }

    /// Reads the secrets of all webhooks. The error names all that are missing.
    pub(crate) async fn read_secrets(&self, config: &Config) -> Result<WebhookSecrets, Failure> {
        if !self.0.is_empty() && config.text("db").ends_with(":memory:") {
            return Err(
                config.bad("outbox", "an outbox needs a database that programs write to, not one in memory")
            );
        }
        let has_partitions = |checked: &Checked| checked.partitions.is_some_and(|partitions| partitions > 1);
        if !config.text("db").starts_with("postgres")
            && let Some((name, _)) = self.0.iter().find(|(_, checked)| has_partitions(checked))
        {
            return Err(config.bad("outbox", &format!("{name}: `partitions` needs a database in PostgreSQL")));
        }
        let (mut all, mut wrong, sources) = (BTreeMap::new(), Vec::new(), kinds::sources(config));
        for (name, checked) in &self.0 {
            let Target::Webhook { secrets, .. } = &checked.target else { continue };
            let mut found = Vec::new();
            for secret in secrets {
                match read_secret(secret, &sources).await {
                    Ok(secrets) => found.extend(secrets),
                    Err(why) => wrong.push(format!("{name}: {why}")),
                }
            }
            all.insert(name.clone(), found);
        }
        if wrong.is_empty() { Ok(WebhookSecrets(all)) } else { Err(config.bad("outbox", &wrong.join("; "))) }
    }

    /// Starts a runner for each. They run until [`stop`].
    pub(crate) async fn start(
        &self,
        config: &Config,
        node: &Node,
        secrets: &WebhookSecrets,
    ) -> Result<Vec<Runner>, Failure> {
        let mut runners = Vec::new();
        for (name, checked) in &self.0 {
            let failed = |why: String| Failure::failed(format!("outbox {name}: {why}"));
            let outbox = Outbox::open_named(config.text("db"), name)
                .await
                .map_err(|error| failed(error.to_string()))?;
            if let Some(partitions) = checked.partitions.filter(|_| config.text("db").starts_with("postgres"))
                && let Err(error) = outbox.partitioned(partitions).await
            {
                // The jobs of this server do not wait for that.
                tracing::warn!(outbox = %name, partitions, %error, "the number of partitions stays as it is; the next start tries again");
            }
            let options = checked.options.clone();
            let runner = match &checked.target {
                Target::Jobs { kind } => {
                    let jobs = Jobs::new(node.client());
                    let jobs = match kind {
                        Some(kind) => jobs.of_kind(kind.clone()),
                        None => jobs,
                    };
                    outbox.start_with(options, jobs).await
                }
                Target::Webhook { url, .. } => {
                    let secrets: Vec<Secret> = secrets.0.get(name).cloned().unwrap_or_default();
                    let webhook = Webhook::new(url, secrets).map_err(|bad| failed(bad.to_string()))?;
                    outbox.start_with(options, webhook).await
                }
            };
            runners.push(runner.map_err(|error| failed(error.to_string()))?);
        }
        Ok(runners)
    }
}

/// Stops runners: other nodes take over at once.
pub(crate) async fn stop(runners: Vec<Runner>) {
    for runner in runners {
        if let Err(error) = runner.stop().await {
            tracing::warn!(%error, "the runner of an outbox did not stop in order");
        }
    }
}

/// The secrets that sign the calls of each outbox.
#[derive(Debug, Default)]
pub(crate) struct WebhookSecrets(BTreeMap<String, Vec<Secret>>);

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn outboxes_are_read() {
        let text = format!(
            r#"{{"main": {{"sink": "jobs", "partitions": 4}}, "mail": {{"sink": "jobs", "kind": "mail.send", "concurrency": 4, "attempts_max": 3}},
                "billing": {{"sink": "webhook", "url": "https://billing.internal/events", "secrets": ["{SECRET}", {{"$secret": "billing"}}],
                  "timeout": "5s", "lock_ttl": "20s", "keep_dead": "90d"}}}}"#
        );
        let outboxes = Outboxes::parse(&text).unwrap();
        assert_eq!(outboxes.0.keys().collect::<Vec<_>>(), ["billing", "mail", "main"]);
        assert_eq!((outboxes.0["mail"].options.concurrency, outboxes.0["mail"].options.attempts_max), (4, 3));
        assert_eq!(outboxes.0["billing"].options.timeout, std::time::Duration::from_secs(5));
        assert_eq!((outboxes.0["main"].partitions, outboxes.0["mail"].partitions), (Some(4), None));
        assert!(Outboxes::parse(" ").unwrap().0.is_empty());
    }

    #[test]
    fn all_errors_come_at_once_and_without_secrets() {
        let text = r#"{"a": {"sink": "kafka"}, "b": {"sink": "webhook", "url": "ftp://x", "timeout": "soon"}, "c": {"kind": "x"},
            "d": {"sink": "jobs", "kind": "A b", "url": "https://x"}, "e f": {"sink": "jobs"},
            "g": {"sink": "webhook", "url": "https://x", "secrets": ["hunter2-hunter2"], "kind": "x"},
            "h": {"sink": "jobs", "concurrency": 0, "attempts_max": 0, "partitions": 65}, "i": {"sink": "jobs", "topic": "x"}}"#;
        let error = Outboxes::parse(text).unwrap_err();
        for part in [
            "a: `sink` must be \"jobs\" or \"webhook\"",
            "b: the URL must begin with http",
            "b: set `secrets` or `secrets_file`",
            "b: `timeout`",
            "c: `sink` must",
            "d: `kind`",
            "d: `url` belongs to the sink \"webhook\"",
            "\"e f\": a name has",
            "g: `kind` belongs to the sink \"jobs\"",
            "g: `secrets`: a secret is written as",
            "h: `concurrency` must be 1 to 10,000",
            "h: `partitions` must be 1 to 64",
            "i: unknown field",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains("hunter2"), "{error}");
        assert!(Outboxes::parse("[1]").unwrap_err().contains("must be a table"));
    }
}

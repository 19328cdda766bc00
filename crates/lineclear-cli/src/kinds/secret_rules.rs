//! Which secrets jobs may use, and for what. The settings of the server decide this: otherwise every author of a job could have a
//! secret sent to a server of their own, or printed by a program.

use std::collections::BTreeMap;

use lineclear::model::Payload;
use lineclear::model::secret::SecretName;
use lineclear::outbound::http;
use lineclear::secrets::{SecretFuture, SecretRequest, SecretSources};
use lineclear::{HandlerError, Permanent};
use serde::Deserialize;

use super::command;

/// Prefix of variables with secrets.
pub(crate) const PREFIX: &str = "LINECLEAR_SECRET_";

/// The rules, by secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SecretRules(BTreeMap<SecretName, Rule>);

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// Hosts to which jobs of the kind `http` may send it.
    #[serde(default)]
    hosts: Vec<String>,
    /// Programs to which jobs of the kind `command` may give it.
    #[serde(default)]
    programs: Vec<String>,
}

impl Rule {
    fn check(&self) -> Result<(), String> {
        if self.hosts.is_empty() && self.programs.is_empty() {
            return Err("must have `hosts` or `programs`: nothing else uses secrets".to_owned());
        }
        let is_host = |host: &&String| {
            let host = host.strip_prefix("http://").unwrap_or(host);
            !host.is_empty()
                && !host.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '@' | '*' | '?'))
        };
        if let Some(bad) = self.hosts.iter().find(|host| !is_host(host)) {
            return Err(format!(
                "{bad:?} is not a host such as api.example.com, api.example.com:8443 or http://api.internal"
            ));
        }
        match self.programs.iter().find(|program| !program.starts_with('/')) {
            Some(bad) => Err(format!("{bad:?} is not an absolute path such as /usr/bin/backup")),
            None => Ok(()),
        }
    }
}

impl SecretRules {
    /// JSON: `{"api-token": {"hosts": ["api.example.com"]}, "db-password": {"programs": ["/usr/bin/backup"]}}`.
    pub(crate) fn parse(text: &str) -> Result<SecretRules, String> {
        if text.trim().is_empty() {
            return Ok(SecretRules::default());
        }
        let rules: BTreeMap<String, Rule> = serde_json::from_str(text).map_err(|error| {
            format!(
                "must be a table such as {{\"api-token\": {{\"hosts\": [\"api.example.com\"]}}}}: {error}"
            )
        })?;
        let one = |(name, rule): (String, Rule)| {
            rule.check().map_err(|why| format!("{name}: {why}"))?;
            Ok((SecretName::new(name).map_err(|bad| bad.to_string())?, rule))
        };
        rules.into_iter().map(one).collect::<Result<_, String>>().map(SecretRules)
    }

    /// To which hosts each secret may be sent.
    pub(super) fn hosts(&self) -> BTreeMap<SecretName, Vec<String>> {
        self.0.iter().map(|(name, rule)| (name.clone(), rule.hosts.clone())).collect()
    }

    /// Resolves what the rules allow.
    pub(super) fn resolver(
        self,
        sources: SecretSources,
    ) -> impl Fn(SecretRequest) -> SecretFuture + Send + Sync + 'static {
        move |request| {
            let allowed = self.check(&request);
            let sources = sources.clone();
            Box::pin(async move {
                allowed?;
                sources.read(&request.name).await
            })
        }
    }

    /// Whether a job may have a secret. To which host a job of the kind `http` sends it is checked when it calls.
    fn check(&self, request: &SecretRequest) -> Result<(), HandlerError> {
        let refused = |why: String| Err(Permanent::new(why).into());
        let rule = self.0.get(&request.name);
        match request.kind.as_str() {
            http::KIND if rule.is_some_and(|rule| !rule.hosts.is_empty()) => Ok(()),
            http::KIND => refused(format!(
                "jobs of the kind http may not use it on this server; add [secrets.{}] with `hosts` to its lineclear.toml and restart it",
                quoted(&request.name)
            )),
            command::KIND => match program(&request.input) {
                Some(program) if rule.is_some_and(|rule| rule.programs.contains(&program)) => Ok(()),
                program => refused(format!(
                    "{} may not get it on this server; add [secrets.{}] with `programs` to its lineclear.toml and restart it",
                    program.unwrap_or_else(|| "this command".to_owned()),
                    quoted(&request.name)
                )),
            },
            kind => refused(format!("jobs of the kind {kind} use no secrets")),
        }
    }
}

/// As a key of TOML.
fn quoted(name: &SecretName) -> String {
    if name.as_str().contains('.') { format!("\"{name}\"") } else { name.to_string() }
}

fn program(input: &Payload) -> Option<String> {
    #[derive(Deserialize)]
    struct Command {
        argv: Vec<serde_json::Value>,
    }
    let argv = input.read::<Command>().ok()?.argv;
    argv.first()?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_hosts_or_programs() {
        let rules = SecretRules::parse(
            r#"{"a": {"hosts": ["api.example.com", "10.0.0.1:8443", "http://127.0.0.1"]}, "b.c": {"programs": ["/bin/x"]}}"#,
        )
        .unwrap();
        assert_eq!(rules.hosts().len(), 2);
        assert_eq!(SecretRules::parse(" "), Ok(SecretRules::default()));
        for bad in [
            r#"{"a": {}}"#,
            r#"{"a": {"kinds": ["http"]}}"#,
            r#"{"a": {"hosts": ["https://example.com"]}}"#,
            r#"{"a": {"hosts": ["*.example.com"]}}"#,
            r#"{"a": {"programs": ["backup"]}}"#,
            r#"{"../a": {"hosts": ["h"]}}"#,
            r#"["a"]"#,
            "a=b",
        ] {
            assert!(SecretRules::parse(bad).is_err(), "{bad}");
        }
    }
}

//! Which dead letters a command means.

use clap::Args;
use serde_json::{Value, json};

/// All that is given must fit.
#[derive(Args, Clone)]
pub(crate) struct Which {
    /// Of this kind
    #[arg(long, value_name = "KIND", help_heading = "Which")]
    kind: Option<String>,
    /// Of the manifest with this key
    #[arg(long, value_name = "KEY", help_heading = "Which")]
    manifest: Option<String>,
    /// Of this group
    #[arg(long, value_name = "NAME", help_heading = "Which")]
    group: Option<String>,
    /// Of this family of errors, as `dead families` shows it
    #[arg(long, value_name = "FINGERPRINT", help_heading = "Which")]
    fingerprint: Option<String>,
    /// Why they died: retries_used_up, permanent or worker_lost
    #[arg(long, value_name = "REASON", help_heading = "Which")]
    reason: Option<String>,
    /// That died before this moment, such as 2026-12-24T18:00:00Z
    #[arg(long, value_name = "MOMENT", help_heading = "Which")]
    before: Option<String>,
}

impl Which {
    fn pairs(&self) -> [(&'static str, &Option<String>); 6] {
        [
            ("kind", &self.kind),
            ("manifest", &self.manifest),
            ("group", &self.group),
            ("fingerprint", &self.fingerprint),
            ("reason", &self.reason),
            ("before", &self.before),
        ]
    }

    /// Whether anything is given.
    pub(super) fn is_given(&self) -> bool {
        self.pairs().iter().any(|(_, value)| value.is_some())
    }

    /// As parameters of a request.
    pub(super) fn asked(&self) -> Vec<(&'static str, Option<String>)> {
        self.pairs().map(|(name, value)| (name, value.clone())).to_vec()
    }

    /// As the body of a request about those that died before `until`, if nothing earlier is given.
    pub(super) fn body(&self, until: &str, note: Option<&str>) -> Value {
        let mut body = serde_json::Map::new();
        for (name, value) in self.pairs() {
            if let Some(value) = value {
                body.insert(name.to_owned(), json!(value));
            }
        }
        body.entry("before").or_insert_with(|| json!(until));
        if let Some(note) = note {
            body.insert("note".to_owned(), json!(note));
        }
        Value::Object(body)
    }
}

//! Which dead letters a command means.

use clap::Args;
use serde_json::{Value, json};

/// All that is given must fit.
#[derive(Args, Clone, Default)]
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
        // What dies after it was counted is not meant, whatever was said: it would be revived again and again.
        let moment = |text: &str| text.parse::<jiff::Timestamp>().ok();
        let later =
            |given: &String| moment(given).zip(moment(until)).is_some_and(|(given, until)| given > until);
        if self.before.as_ref().is_none_or(later) {
            body.insert("before".to_owned(), json!(until));
        }
        if let Some(note) = note {
            body.insert("note".to_owned(), json!(note));
        }
        Value::Object(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dies_after_it_was_counted_is_not_meant() {
        let until = "2026-11-16T12:00:00Z";
        let before = |given: Option<&str>| {
            let which = Which { before: given.map(str::to_owned), ..Which::default() };
            which.body(until, None)["before"].as_str().map(str::to_owned)
        };
        assert_eq!(before(None).as_deref(), Some(until));
        assert_eq!(
            before(Some("2030-01-01T00:00:00Z")).as_deref(),
            Some(until),
            "that would be every time anew"
        );
        assert_eq!(before(Some("2026-11-16T13:30:00+02:00")).as_deref(), Some("2026-11-16T13:30:00+02:00"));
        assert_eq!(before(Some("soon")).as_deref(), Some("soon"), "the server says what is wrong with it");
    }
}

//! Filters for dead letters.

use clap::Args;
use serde_json::{Value, json};

/// A dead letter must match all that are given.
#[derive(Args, Clone, Default)]
pub(crate) struct DeadLetterFilter {
    /// Kind of the job
    #[arg(long, value_name = "KIND", help_heading = "Filters")]
    kind: Option<String>,
    /// Key of the manifest
    #[arg(long, value_name = "KEY", help_heading = "Filters")]
    manifest: Option<String>,
    /// Name of the group
    #[arg(long, value_name = "NAME", help_heading = "Filters")]
    group: Option<String>,
    /// Fingerprint of the error, see `dead-letter families`
    #[arg(long, value_name = "FINGERPRINT", help_heading = "Filters")]
    fingerprint: Option<String>,
    /// Reason: retries_used_up, permanent or worker_lost
    #[arg(long, value_name = "REASON", help_heading = "Filters")]
    reason: Option<String>,
    /// Created before this time, such as 2026-12-24T18:00:00Z
    #[arg(long, value_name = "TIME", help_heading = "Filters")]
    before: Option<String>,
}

impl DeadLetterFilter {
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

    /// Whether a filter is given.
    pub(super) fn is_set(&self) -> bool {
        self.pairs().iter().any(|(_, value)| value.is_some())
    }

    /// The filters as query parameters.
    pub(super) fn query_pairs(&self) -> Vec<(&'static str, Option<String>)> {
        self.pairs().map(|(name, value)| (name, value.clone())).to_vec()
    }

    /// The filters as the body of a request, limited to dead letters from before `until`.
    pub(super) fn body(&self, until: &str, note: Option<&str>) -> Value {
        let mut body = serde_json::Map::new();
        for (name, value) in self.pairs() {
            if let Some(value) = value {
                body.insert(name.to_owned(), json!(value));
            }
        }
        // Jobs that die after the count are excluded; otherwise they would be revived again and again.
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
    fn jobs_that_die_after_the_count_are_excluded() {
        let until = "2026-11-16T12:00:00Z";
        let before = |given: Option<&str>| {
            let filter = DeadLetterFilter { before: given.map(str::to_owned), ..DeadLetterFilter::default() };
            filter.body(until, None)["before"].as_str().map(str::to_owned)
        };
        assert_eq!(before(None).as_deref(), Some(until));
        assert_eq!(
            before(Some("2030-01-01T00:00:00Z")).as_deref(),
            Some(until),
            "a later bound would revive them again and again"
        );
        assert_eq!(before(Some("2026-11-16T13:30:00+02:00")).as_deref(), Some("2026-11-16T13:30:00+02:00"));
        assert_eq!(before(Some("soon")).as_deref(), Some("soon"), "the server reports the error");
    }
}

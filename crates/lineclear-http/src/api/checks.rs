//! A check, as it stands in JSON.

use lineclear_model::doctor::Check;
use serde::Serialize;
use utoipa::ToSchema;

/// One check, and how it came out.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CheckShape {
    /// What it belongs to: `configuration`, `database`, `schema`, `nodes`, `work` or `manifests`.
    group: &'static str,
    /// Which one; docs/doctor.md lists them.
    check: &'static str,
    /// `ok`, `warning`, `failure` or `skipped`.
    finding: &'static str,
    /// In one sentence.
    says: String,
    /// What to do, where something is to be done.
    todo: Option<String>,
    /// The SQL that does it.
    sql: Option<String>,
}

impl CheckShape {
    pub(super) fn of(check: Check) -> CheckShape {
        let Check { group, check, finding, says, todo, sql } = check;
        CheckShape {
            group: group.as_str(),
            check: check.as_str(),
            finding: finding.as_str(),
            says,
            todo,
            sql,
        }
    }
}

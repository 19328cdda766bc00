//! Doctor: checks of the database, the schema, nodes, jobs and manifests.

use axum::Json;
use axum::extract::State;
use lineclear_model::doctor::{Check, is_healthy};
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::problem::Problem;

/// A check and its result.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DoctorCheck {
    /// `configuration`, `database`, `schema`, `nodes`, `work` or `manifests`.
    group: &'static str,
    /// The name of the check; docs/doctor.md lists them.
    check: &'static str,
    /// `ok`, `warning`, `failure` or `skipped`.
    finding: &'static str,
    /// The result in one sentence.
    message: String,
    /// What to do, if anything.
    remedy: Option<String>,
    /// The SQL for it.
    sql: Option<String>,
}

impl DoctorCheck {
    pub(super) fn of(check: Check) -> DoctorCheck {
        let Check { group, check, finding, message, remedy, sql } = check;
        DoctorCheck {
            group: group.as_str(),
            check: check.as_str(),
            finding: finding.as_str(),
            message,
            remedy,
            sql,
        }
    }
}

/// All checks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DoctorResponse {
    /// Whether no check failed.
    healthy: bool,
    /// In the order of docs/doctor.md.
    checks: Vec<DoctorCheck>,
}

/// Runs all checks, and changes nothing. For admins: the result names other sessions of the database, and the checks run about 100
/// short statements.
#[utoipa::path(
    get, path = "/doctor", operation_id = "doctor", tag = "stats",
    security(("token" = ["admin"])),
    responses((status = 200, body = DoctorResponse),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn doctor(state: State<App>) -> Json<DoctorResponse> {
    let checks = state.reading.doctor().await;
    Json(DoctorResponse {
        healthy: is_healthy(&checks),
        checks: checks.into_iter().map(DoctorCheck::of).collect(),
    })
}

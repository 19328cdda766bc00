//! Doctor: everything that may be wrong with the database, the schema, nodes, jobs and manifests.

use axum::Json;
use axum::extract::State;
use lineclear_model::doctor::is_healthy;
use serde::Serialize;
use utoipa::ToSchema;

use super::checks::CheckShape;
use crate::App;
use crate::problem::Problem;

/// Every check, and how it came out.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DoctorAnswer {
    /// No check failed.
    healthy: bool,
    /// In the order of docs/doctor.md.
    checks: Vec<CheckShape>,
}

/// Looks at everything that may be wrong, and changes nothing. For admins: it names sessions of others in the database, and asks about a
/// hundred short statements.
#[utoipa::path(
    get, path = "/doctor", operation_id = "doctor", tag = "stats",
    security(("token" = ["admin"])),
    responses((status = 200, body = DoctorAnswer),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn doctor(state: State<App>) -> Json<DoctorAnswer> {
    let checks = state.reading.doctor().await;
    Json(DoctorAnswer {
        healthy: is_healthy(&checks),
        checks: checks.into_iter().map(CheckShape::of).collect(),
    })
}

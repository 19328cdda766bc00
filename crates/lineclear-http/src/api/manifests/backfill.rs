//! Runs ticks of the past.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lineclear::store::{BackfillOptions, Created, Creation};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::App;
use crate::api::json_types::{Id, PathParam, moment, name, time};
use crate::audit::AuditDetails;
use crate::idempotency::{IdempotencyKeyHeader, KeyedBody, StoredReply, create_idempotently};
use crate::problem::Problem;

/// A range of ticks.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackfillBody {
    /// The first moment, inclusive; RFC 3339.
    from: String,
    /// The last moment, exclusive; RFC 3339.
    to: String,
}

/// The result of a backfill.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BackfillResponse {
    /// The new jobs, in the order of their ticks.
    jobs: Vec<Id>,
    /// Ticks that ran before.
    known: u64,
    /// The range has more ticks than one call handles: continue from here.
    next: Option<String>,
    /// The planner has not decided ticks from here on.
    undecided_from: Option<String>,
}

/// Runs the ticks of a range in the past that did not run.
#[utoipa::path(
    post, path = "/manifests/{key}/backfill", operation_id = "backfill_manifest", tag = "manifests", security(("token" = ["operate"])),
    params(("key" = String, Path), IdempotencyKeyHeader), request_body = BackfillBody,
    responses((status = 201, body = BackfillResponse),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn backfill(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    request: KeyedBody<BackfillBody>,
) -> Result<Response, Problem> {
    let key = name(&path.0, "manifest")?;
    let (from, to) = (moment(&request.body.from, "/from")?, moment(&request.body.to, "/to")?);
    let creation = Creation::Backfill { key, from, to, options: BackfillOptions::default() };
    let reply = create_idempotently(&state.client, request.key, creation, &audit, |created| {
        let Created::Backfill(Some(done)) = created else { return None };
        let answer = BackfillResponse {
            jobs: done.jobs.iter().map(Id::of).collect(),
            known: done.known,
            next: done.next.map(time),
            undecided_from: done.undecided_from.map(time),
        };
        StoredReply::new(StatusCode::CREATED, None, &answer)
    });
    // The rule concerns the range, which begins with `from`.
    Ok(reply.await.map_err(|problem| problem.when("backfill", "/from"))?.into_response())
}

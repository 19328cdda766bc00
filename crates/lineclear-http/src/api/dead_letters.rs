//! Dead letters: jobs that failed for good and wait for an operator, who revives or acknowledges them.

pub(super) mod families;
pub(crate) mod matching;
pub(super) mod resolve;

use axum::Json;
use axum::extract::State;
use lineclear::read::DeadLetterView;
use lineclear::store::DeadLetterId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::json_types::{Id, QueryParams, id, time};
use super::pagination::{Page, cursor, limit};
use crate::App;
use crate::problem::Problem;
use matching::DeadLetterFilterBody;

/// A dead letter.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetter {
    id: Id,
    job_id: Id,
    /// The key of the manifest.
    manifest: Option<String>,
    kind: String,
    /// Why the job died.
    reason: String,
    /// The fingerprint of its error.
    fingerprint: Option<String>,
    /// `awaiting`, `revived` or `acknowledged`.
    status: String,
    note: Option<String>,
    failures: u32,
    crashes: u32,
    last_error: Option<String>,
    dead_at: String,
    resolved_at: Option<String>,
    resolved_by: Option<String>,
}

impl DeadLetter {
    pub(crate) fn of(view: DeadLetterView) -> DeadLetter {
        DeadLetter {
            id: Id::of(view.id),
            job_id: Id::of(view.job),
            manifest: view.manifest,
            kind: view.kind,
            reason: view.reason.as_str().to_owned(),
            fingerprint: view.fingerprint,
            status: view.status,
            note: view.note,
            failures: view.failures,
            crashes: view.crashes,
            last_error: view.last_error,
            dead_at: time(view.dead_at),
            resolved_at: view.resolved_at.map(time),
            resolved_by: view.resolved_by,
        }
    }
}

/// A filter; all given fields must match.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// `awaiting`, `revived` or `acknowledged`; the default is all.
    status: Option<String>,
    kind: Option<String>,
    /// The key of a manifest.
    manifest: Option<String>,
    group: Option<String>,
    fingerprint: Option<String>,
    /// `retries_used_up`, `permanent` or `worker_lost`.
    reason: Option<String>,
    /// Only those that died before this time; RFC 3339.
    before: Option<String>,
    /// The page size, 1 to 1,000; the default is 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the previous page.
    cursor: Option<String>,
}

/// Lists dead letters, newest first.
#[utoipa::path(
    get, path = "/dead-letters", operation_id = "list_dead_letters", tag = "dead letters", security(("token" = ["read"])), params(ListParams),
    responses((status = 200, body = Page<DeadLetter>),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    state: State<App>,
    params: QueryParams<ListParams>,
) -> Result<Json<Page<DeadLetter>>, Problem> {
    let ListParams {
        status,
        kind,
        manifest,
        group,
        fingerprint,
        reason,
        before,
        limit: page_size,
        cursor: from,
    } = params.0;
    if let Some(status) = status.as_deref().filter(|word| !STATUSES.contains(word)) {
        return Err(Problem::malformed(
            "status",
            format!("`status` must be one of {}; it is {status:?}", STATUSES.join(", ")),
        ));
    }
    let matching = DeadLetterFilterBody {
        kind,
        manifest,
        group,
        fingerprint,
        reason,
        before,
        ..DeadLetterFilterBody::default()
    };
    let filter = matching.filter().map_err(Problem::in_query)?;
    let before = cursor(from.as_deref(), |text| id(text, "").ok().map(DeadLetterId))?;
    let page =
        state.reading.dead_letters_matching(&filter, status.as_deref(), before, limit(page_size)?).await?;
    let items = page.items.into_iter().map(DeadLetter::of).collect();
    Ok(Json(Page::new(items, page.next.map(|id| id.to_string()))))
}

pub(crate) const STATUSES: [&str; 3] = ["awaiting", "revived", "acknowledged"];

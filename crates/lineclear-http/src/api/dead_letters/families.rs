//! Dead letters grouped by kind, reason and error: one cause often has many.

use axum::Json;
use axum::extract::State;
use lineclear::read::{Families, FamilyView};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::matching::DeadLetterFilterBody;
use crate::App;
use crate::api::json_types::{Id, QueryParams, time};
use crate::api::pagination::limit;
use crate::problem::Problem;

/// Dead letters with the same kind, reason and error fingerprint.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetterFamily {
    kind: String,
    /// Why the jobs died.
    reason: String,
    /// The fingerprint of the error; null if there was none.
    fingerprint: Option<String>,
    count: u64,
    /// When the first job died.
    first_at: String,
    /// When the last job died.
    last_at: String,
    /// The newest job.
    job_id: Id,
    /// Its last error.
    last_error: Option<String>,
}

impl DeadLetterFamily {
    fn of(view: FamilyView) -> DeadLetterFamily {
        DeadLetterFamily {
            kind: view.kind,
            reason: view.reason.as_str().to_owned(),
            fingerprint: view.fingerprint,
            count: view.count,
            first_at: time(view.first_at),
            last_at: time(view.last_at),
            job_id: Id::of(view.job),
            last_error: view.last_error,
        }
    }
}

/// Families of dead letters.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetterFamilies {
    /// The largest first.
    items: Vec<DeadLetterFamily>,
    /// The number of matching dead letters, including those of families that are not listed.
    total: u64,
    /// Whether `total` is exact: the server looks at the newest 100,000.
    exact: bool,
    /// The time of the count, on the database's clock. Pass it as `before` to resolve these and no later ones.
    at: String,
}

/// A filter over awaiting dead letters; all given fields must match.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    kind: Option<String>,
    /// The key of a manifest.
    manifest: Option<String>,
    group: Option<String>,
    fingerprint: Option<String>,
    /// `retries_used_up`, `permanent` or `worker_lost`.
    reason: Option<String>,
    /// Only those that died before this time; RFC 3339.
    before: Option<String>,
    /// The number of families, 1 to 1,000; the default is 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Groups awaiting dead letters by kind, reason and error fingerprint, and counts them.
#[utoipa::path(
    get, path = "/dead-letters/families", operation_id = "list_dead_letter_families", tag = "dead letters",
    security(("token" = ["read"])), params(ListParams),
    responses((status = 200, body = DeadLetterFamilies),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    state: State<App>,
    params: QueryParams<ListParams>,
) -> Result<Json<DeadLetterFamilies>, Problem> {
    let ListParams { kind, manifest, group, fingerprint, reason, before, limit: count } = params.0;
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
    let Families { items, total, is_exact, at } = state.reading.dead_families(&filter, limit(count)?).await?;
    let items = items.into_iter().map(DeadLetterFamily::of).collect();
    Ok(Json(DeadLetterFamilies { items, total, exact: is_exact, at: time(at) }))
}

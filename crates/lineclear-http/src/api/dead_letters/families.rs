//! Families of dead letters: those that died alike, because one cause often has many.

use axum::Json;
use axum::extract::State;
use lineclear::store::views::{Families, FamilyView};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::dead_letters::MatchingBody;
use super::page::limit;
use super::shape::{Asked, Id, time};
use crate::App;
use crate::problem::Problem;

/// Dead letters of one kind that died for one reason of one family of errors.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Family {
    kind: String,
    /// Why they died.
    reason: String,
    /// The family of errors; null: they died of no error.
    fingerprint: Option<String>,
    count: u64,
    /// When the first of them died.
    first_at: String,
    /// When the last one did.
    last_at: String,
    /// The newest job.
    job_id: Id,
    /// What went wrong with it last.
    last_error: Option<String>,
}

impl Family {
    fn of(view: FamilyView) -> Family {
        Family {
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

/// Families, and how many dead letters they are.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FamiliesShape {
    /// The largest first.
    items: Vec<Family>,
    /// Dead letters that match, over all families, those that are not shown included.
    total: u64,
    /// Whether that is all: the newest 100,000 are looked at.
    exact: bool,
    /// When it was so, on the database's clock: give it as `before` to resolve these and none that die later.
    at: String,
}

/// Which dead letters, of those that await a person: all that is given must fit.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    kind: Option<String>,
    /// The key of a manifest.
    manifest: Option<String>,
    group: Option<String>,
    fingerprint: Option<String>,
    /// `retries_used_up`, `permanent` or `worker_lost`.
    reason: Option<String>,
    /// That died before; RFC 3339.
    before: Option<String>,
    /// How many families at most: 1 to 1,000, and 50 if nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Puts dead letters that await a person together by kind, reason and family of errors, and counts them.
#[utoipa::path(
    get, path = "/dead-letters/families", operation_id = "list_dead_families", tag = "dead letters",
    security(("token" = ["read"])), params(Which),
    responses((status = 200, body = FamiliesShape),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>, asked: Asked<Which>) -> Result<Json<FamiliesShape>, Problem> {
    let Which { kind, manifest, group, fingerprint, reason, before, limit: most } = asked.0;
    let matching =
        MatchingBody { kind, manifest, group, fingerprint, reason, before, ..MatchingBody::default() };
    let filter = matching.filter().map_err(Problem::in_query)?;
    let Families { items, total, is_exact, at } = state.reading.dead_families(&filter, limit(most)?).await?;
    let items = items.into_iter().map(Family::of).collect();
    Ok(Json(FamiliesShape { items, total, exact: is_exact, at: time(at) }))
}

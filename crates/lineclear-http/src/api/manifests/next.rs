//! The next ticks of a manifest.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lineclear_model::preview;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::find;
use crate::App;
use crate::api::json_types::{PathParam, QueryParams, time};
use crate::api::pagination::limit;
use crate::middleware::defect;
use crate::problem::Problem;

/// How many ticks to return.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct NextParams {
    /// 1 to 1,000; the default is 10.
    #[param(minimum = 1, maximum = 1000)]
    n: Option<u32>,
}

/// A future tick.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NextTick {
    tick_at: String,
    /// When its job is due: the tick plus the jitter.
    due_at: String,
}

/// The next ticks of a manifest.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NextTicks {
    ticks: Vec<NextTick>,
    /// The search stopped here: all ticks after the last one above and up to this time are excluded.
    excluded_through: Option<String>,
}

/// Returns the next ticks of a manifest. A paused manifest has none.
#[utoipa::path(
    get, path = "/manifests/{key}/next", operation_id = "next_manifest", tag = "manifests", security(("token" = ["read"])), params(("key" = String, Path), NextParams),
    responses((status = 200, body = NextTicks), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn next(
    state: State<App>,
    path: PathParam,
    params: QueryParams<NextParams>,
) -> Result<Json<NextTicks>, Problem> {
    let count = limit(params.0.n.or(Some(10)))? as usize;
    let view = find(&state, &path.0).await?;
    let manifest = view.manifest.map_err(|why| Problem::new(StatusCode::CONFLICT, "unreadable", why))?;
    if !manifest.enabled {
        return Ok(Json(NextTicks { ticks: Vec::new(), excluded_through: None }));
    }
    let now = state.reading.now().await?;
    // A long computation if much is excluded: it must not block the runtime.
    let search = tokio::task::spawn_blocking(move || preview(&manifest.rules(), &manifest.key, now, count));
    let ahead = search.await.map_err(|_| defect())?;
    let ticks = ahead
        .ticks
        .into_iter()
        .map(|tick| NextTick { tick_at: time(tick.tick_at), due_at: time(tick.due_at) });
    Ok(Json(NextTicks { ticks: ticks.collect(), excluded_through: ahead.excluded_through.map(time) }))
}

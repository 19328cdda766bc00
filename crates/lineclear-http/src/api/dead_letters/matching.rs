//! Revives or acknowledges all dead letters that match a filter.

use axum::Json;
use axum::extract::State;
use lineclear::store::{self, DeadLetterFilter, Revival};
use lineclear_model::DeadReason;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::{moment, name_at, unprocessable};
use crate::audit::AuditDetails;
use crate::auth::Caller;
use crate::problem::Problem;

/// A filter over awaiting dead letters; all given fields must match.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadLetterFilterBody {
    pub(crate) kind: Option<String>,
    pub(crate) manifest: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) fingerprint: Option<String>,
    pub(crate) reason: Option<String>,
    /// Only those that died before this time; RFC 3339.
    pub(crate) before: Option<String>,
    /// Required for an empty filter: all awaiting dead letters.
    #[serde(default)]
    pub(crate) all: bool,
    pub(crate) note: Option<String>,
}

const REASONS: [&str; 3] = ["retries_used_up", "permanent", "worker_lost"];

impl DeadLetterFilterBody {
    /// The filter, which may be empty.
    pub(crate) fn filter(&self) -> Result<DeadLetterFilter, Problem> {
        let named =
            |text: &Option<String>, at: &str| text.as_deref().map(|text| name_at(text, at)).transpose();
        let reason = |word: &String| {
            DeadReason::from_word(word).ok_or_else(|| {
                unprocessable(
                    "reason",
                    format!("`reason` must be one of {}; it is {word:?}", REASONS.join(", ")),
                )
                .at("/reason")
            })
        };
        Ok(DeadLetterFilter {
            kind: named(&self.kind, "/kind")?,
            manifest: named(&self.manifest, "/manifest")?,
            group: named(&self.group, "/group")?,
            fingerprint: self.fingerprint.clone(),
            reason: self.reason.as_ref().map(reason).transpose()?,
            before: self.before.as_deref().map(|text| moment(text, "/before")).transpose()?,
        })
    }

    /// The filter; it is empty only if `all` is set.
    fn required(&self) -> Result<DeadLetterFilter, Problem> {
        let given = [&self.kind, &self.manifest, &self.group, &self.fingerprint, &self.reason, &self.before];
        if given.iter().all(|one| one.is_none()) != self.all {
            let detail = "give a filter, or `\"all\": true`, but not both";
            return Err(unprocessable("which", detail).at("/all"));
        }
        self.filter()
    }
}

/// The audit details: the filter, and how many dead letters it resolved.
fn details(which: &DeadLetterFilterBody, count: Option<u64>) -> Value {
    let mut which = serde_json::to_value(which).unwrap_or_default();
    if let Some(fields) = which.as_object_mut() {
        fields.retain(|name, value| name != "note" && !value.is_null() && *value != Value::Bool(false));
    }
    json!({"which": which, "count": count})
}

/// How many dead letters were resolved.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ResolvedCount {
    /// At most 5,000.
    count: u64,
    /// More match: repeat the request.
    more: bool,
}

impl ResolvedCount {
    fn of(resolved: store::ResolvedCount) -> Json<ResolvedCount> {
        Json(ResolvedCount { count: resolved.count, more: resolved.more })
    }
}

/// Revives dead letters that match, oldest first, up to 5,000: repeat the request while `more` is true. Give `before` to leave out
/// jobs that die again meanwhile.
#[utoipa::path(
    post, path = "/dead-letters/revive", operation_id = "revive_dead_letters", tag = "dead letters", security(("token" = ["operate"])),
    request_body = DeadLetterFilterBody,
    responses((status = 200, body = ResolvedCount), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn revive(
    state: State<App>,
    caller: Caller,
    audit: AuditDetails,
    body: JsonBody<DeadLetterFilterBody>,
) -> Result<Json<ResolvedCount>, Problem> {
    let revival = Revival { by: caller.0.audit_name(), note: body.0.note.clone(), ..Revival::default() };
    let filter = body.0.required()?;
    // First without the count, in case the request fails halfway.
    audit.set(details(&body.0, None));
    let resolved = state.client.store().revive_matching(&filter, revival).await?;
    audit.set(details(&body.0, Some(resolved.count)));
    Ok(ResolvedCount::of(resolved))
}

/// Acknowledges dead letters that match, oldest first, up to 5,000: repeat the request while `more` is true.
#[utoipa::path(
    post, path = "/dead-letters/acknowledge", operation_id = "acknowledge_dead_letters", tag = "dead letters", security(("token" = ["operate"])),
    request_body = DeadLetterFilterBody,
    responses((status = 200, body = ResolvedCount), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn acknowledge(
    state: State<App>,
    caller: Caller,
    audit: AuditDetails,
    body: JsonBody<DeadLetterFilterBody>,
) -> Result<Json<ResolvedCount>, Problem> {
    let (filter, by) = (body.0.required()?, caller.0.audit_name());
    audit.set(details(&body.0, None));
    let resolved = state.client.store().acknowledge_matching(&filter, &by, body.0.note.as_deref()).await?;
    audit.set(details(&body.0, Some(resolved.count)));
    Ok(ResolvedCount::of(resolved))
}

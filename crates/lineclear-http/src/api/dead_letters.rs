//! Dead letters: jobs that wait for a person, who brings them back or lets them rest.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lineclear::read::DeadLetterView;
use lineclear::store::{DeadLetterFilter, DeadLetterId, ResolvedCount, Revival};
use lineclear_model::{DeadReason, Name};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::input::input;
use super::page::{Page, cursor, limit};
use super::shape::{Asked, At, Id, due, id, moment, name_at, time, unprocessable};
use crate::App;
use crate::access::Who;
use crate::audit::Note;
use crate::body::Body;
use crate::problem::Problem;

/// A dead letter.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetter {
    id: Id,
    job_id: Id,
    /// The key of its manifest.
    manifest: Option<String>,
    kind: String,
    /// Why it died.
    reason: String,
    /// The family of errors it belongs to.
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

/// Which dead letters: all that is given must fit.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// `awaiting`, `revived` or `acknowledged`; all if nothing is said.
    status: Option<String>,
    kind: Option<String>,
    /// The key of a manifest.
    manifest: Option<String>,
    group: Option<String>,
    fingerprint: Option<String>,
    /// `retries_used_up`, `permanent` or `worker_lost`.
    reason: Option<String>,
    /// That died before; RFC 3339.
    before: Option<String>,
    /// How many at most: 1 to 1,000, and 50 if nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Lists dead letters, newest first.
#[utoipa::path(
    get, path = "/dead-letters", operation_id = "list_dead_letters", tag = "dead letters", security(("token" = ["read"])), params(Which),
    responses((status = 200, body = Page<DeadLetter>),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>, asked: Asked<Which>) -> Result<Json<Page<DeadLetter>>, Problem> {
    let Which { status, kind, manifest, group, fingerprint, reason, before, limit: most, cursor: from } =
        asked.0;
    if let Some(status) = status.as_deref().filter(|word| !STATUSES.contains(word)) {
        return Err(Problem::malformed("status", format!("{status:?} is none of {}", STATUSES.join(", "))));
    }
    let matching =
        MatchingBody { kind, manifest, group, fingerprint, reason, before, ..MatchingBody::default() };
    let filter = matching.filter().map_err(Problem::in_query)?;
    let before = cursor(from.as_deref(), |text| id(text, "").ok().map(DeadLetterId))?;
    let page = state.reading.dead_letters_matching(&filter, status.as_deref(), before, limit(most)?).await?;
    let items = page.items.into_iter().map(DeadLetter::of).collect();
    Ok(Json(Page::new(items, page.next.map(|id| id.to_string()))))
}

const STATUSES: [&str; 3] = ["awaiting", "revived", "acknowledged"];

/// How to bring a dead letter back.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReviveBody {
    /// Another input.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    /// Not before; RFC 3339.
    due_at: Option<String>,
    /// Not before so many milliseconds from now.
    in_ms: Option<i64>,
    /// What to remember about it.
    note: Option<String>,
}

impl ReviveBody {
    fn read(self, by: String) -> Result<Revival, Problem> {
        let input = self.input.map(|raw| input(&raw, "/input")).transpose()?;
        let due_at = due(self.due_at.as_deref(), self.in_ms, "")?;
        Ok(Revival { by, due_at, input, note: self.note })
    }
}

/// Brings a dead letter back: its job waits again, with no failures counted.
#[utoipa::path(
    post, path = "/dead-letters/{id}/revive", operation_id = "revive_dead_letter", tag = "dead letters", security(("token" = ["operate"])),
    params(("id" = String, Path)), request_body = Option<ReviveBody>,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn revive(
    state: State<App>,
    who: Who,
    note: Note,
    at: At,
    body: Body<Option<ReviveBody>>,
) -> Result<StatusCode, Problem> {
    let letter = DeadLetterId(id(&at.0, "dead letter")?);
    let revival = body.0.unwrap_or_default().read(who.0.who())?;
    note.say(json!({"other_input": revival.input.is_some()}));
    if let Some(input) = &revival.input
        && let Some(there) = find(&state, letter).await?
        && let Ok(kind) = Name::new(there.kind)
    {
        let checked = state.client.check_input(&kind, input);
        checked.map_err(|error| Problem::from(error).at("/input"))?;
    }
    let revived = state.client.store().revive(vec![letter], revival).await?;
    one(&state, revived.is_empty(), letter).await
}

/// What to remember about a dead letter.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcknowledgeBody {
    /// Why it may rest.
    note: Option<String>,
}

/// Lets a dead letter rest.
#[utoipa::path(
    post, path = "/dead-letters/{id}/acknowledge", operation_id = "acknowledge_dead_letter", tag = "dead letters", security(("token" = ["operate"])),
    params(("id" = String, Path)), request_body = Option<AcknowledgeBody>,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn acknowledge(
    state: State<App>,
    who: Who,
    at: At,
    body: Body<Option<AcknowledgeBody>>,
) -> Result<StatusCode, Problem> {
    let letter = DeadLetterId(id(&at.0, "dead letter")?);
    let AcknowledgeBody { note } = body.0.unwrap_or_default();
    let rested = state.client.store().acknowledge(vec![letter], &who.0.who(), note.as_deref()).await?;
    one(&state, rested.is_empty(), letter).await
}

async fn find(state: &App, letter: DeadLetterId) -> Result<Option<DeadLetterView>, Problem> {
    let below = Some(DeadLetterId(letter.0.saturating_add(1)));
    let page = state.reading.dead_letters(None, below, 1).await?;
    Ok(page.items.into_iter().find(|found| found.id == letter))
}

async fn one(state: &App, none: bool, letter: DeadLetterId) -> Result<StatusCode, Problem> {
    if !none {
        return Ok(StatusCode::NO_CONTENT);
    }
    let Some(there) = find(state, letter).await? else {
        return Err(Problem::not_found(format_args!("dead letter {letter}")));
    };
    let detail = format!("dead letter {letter} awaits nobody any more: it was {}", there.status);
    Err(Problem::new(StatusCode::CONFLICT, "not_awaiting", detail))
}

/// Which of those that await a person: all that is given must fit.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MatchingBody {
    pub(crate) kind: Option<String>,
    pub(crate) manifest: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) fingerprint: Option<String>,
    pub(crate) reason: Option<String>,
    /// That died before; RFC 3339.
    pub(crate) before: Option<String>,
    /// Said aloud, so that an empty filter is no accident: all that await a person.
    #[serde(default)]
    pub(crate) all: bool,
    pub(crate) note: Option<String>,
}

impl MatchingBody {
    /// All that is given, be it nothing.
    pub(crate) fn filter(&self) -> Result<DeadLetterFilter, Problem> {
        let named =
            |text: &Option<String>, at: &str| text.as_deref().map(|text| name_at(text, at)).transpose();
        let reason = |word: &String| {
            DeadReason::from_word(word)
                .ok_or_else(|| unprocessable("reason", format!("{word:?} is no reason")).at("/reason"))
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

    fn read(&self) -> Result<DeadLetterFilter, Problem> {
        let given = [&self.kind, &self.manifest, &self.group, &self.fingerprint, &self.reason, &self.before];
        if given.iter().all(|one| one.is_none()) != self.all {
            let detail = "say which, or \"all\": true, and not both";
            return Err(unprocessable("which", detail).at("/all"));
        }
        self.filter()
    }
}

/// Which were meant, and how many they were.
fn noted(which: &MatchingBody, count: Option<u64>) -> Value {
    let mut which = serde_json::to_value(which).unwrap_or_default();
    if let Some(fields) = which.as_object_mut() {
        fields.retain(|name, said| name != "note" && !said.is_null() && *said != Value::Bool(false));
    }
    json!({"which": which, "count": count})
}

/// How many dead letters were resolved.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Count {
    /// So many; 5,000 at most.
    count: u64,
    /// There are more that match: ask again.
    more: bool,
}

impl Count {
    fn of(swept: ResolvedCount) -> Json<Count> {
        Json(Count { count: swept.count, more: swept.more })
    }
}

/// Brings back dead letters that match, oldest first, 5,000 at most: `more` says whether to ask again. Give `before`, so that what
/// dies again meanwhile is left out.
#[utoipa::path(
    post, path = "/dead-letters/revive", operation_id = "revive_dead_letters", tag = "dead letters", security(("token" = ["operate"])),
    request_body = MatchingBody,
    responses((status = 200, body = Count), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn revive_matching(
    state: State<App>,
    who: Who,
    note: Note,
    body: Body<MatchingBody>,
) -> Result<Json<Count>, Problem> {
    let revival = Revival { by: who.0.who(), note: body.0.note.clone(), ..Revival::default() };
    let filter = body.0.read()?;
    // Also if it fails in the middle.
    note.say(noted(&body.0, None));
    let swept = state.client.store().revive_matching(&filter, revival).await?;
    note.say(noted(&body.0, Some(swept.count)));
    Ok(Count::of(swept))
}

/// Lets dead letters rest that match, oldest first, 5,000 at most: `more` says whether to ask again.
#[utoipa::path(
    post, path = "/dead-letters/acknowledge", operation_id = "acknowledge_dead_letters", tag = "dead letters", security(("token" = ["operate"])),
    request_body = MatchingBody,
    responses((status = 200, body = Count), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn acknowledge_matching(
    state: State<App>,
    who: Who,
    note: Note,
    body: Body<MatchingBody>,
) -> Result<Json<Count>, Problem> {
    let (filter, by) = (body.0.read()?, who.0.who());
    note.say(noted(&body.0, None));
    let swept = state.client.store().acknowledge_matching(&filter, &by, body.0.note.as_deref()).await?;
    note.say(noted(&body.0, Some(swept.count)));
    Ok(Count::of(swept))
}

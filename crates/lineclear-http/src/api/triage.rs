//! Which failed messages or events a request replays or discards: some by their ids, or all.

use lineclear_outbox::OutboxError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::json_types::{id, unprocessable};
use super::outboxes::failed;
use crate::audit::summarize;
use crate::problem::Problem;

/// Ids that one request may name.
pub(crate) const IDS_MAX: usize = 1_000;

/// What becomes of what failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Triage {
    Replay,
    Discard,
}

/// Dead messages of an outbox, or parked events of a subscription: `ids`, or `all`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TriageBody {
    /// At most 1,000. One that is not dead or parked is left as it is.
    #[serde(default)]
    pub(crate) ids: Vec<String>,
    /// All of them, 1,000 in one request.
    #[serde(default)]
    pub(crate) all: bool,
    /// With `all`: only those after this id, which is the `next` of the previous response.
    pub(crate) after: Option<String>,
}

/// How many messages or events the request changed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TriageResponse {
    pub(crate) count: u64,
    /// With `all`: there may be more. Repeat the request with this as `after`; null if there are none.
    pub(crate) next: Option<String>,
}

impl TriageResponse {
    pub(crate) fn new(count: u64, next: Option<i64>) -> TriageResponse {
        TriageResponse { count, next: next.map(|id| id.to_string()) }
    }
}

/// A body that was checked.
#[derive(Debug)]
pub(crate) enum Chosen {
    Ids(Vec<i64>),
    AllAfter(Option<i64>),
}

impl Chosen {
    /// What the audit keeps of it.
    pub(crate) fn details(&self) -> Value {
        match self {
            Chosen::Ids(ids) => json!({"ids": summarize(ids)}),
            Chosen::AllAfter(_) => json!({"all": true}),
        }
    }
}

impl TriageBody {
    /// Checks the body; `what` names one of the items.
    pub(crate) fn chosen(&self, what: &str) -> Result<Chosen, Problem> {
        if self.ids.is_empty() != self.all {
            return Err(unprocessable("which", "give `ids`, or `\"all\": true`, but not both").at("/ids"));
        }
        if self.after.is_some() && !self.all {
            return Err(unprocessable("after", "`after` needs `\"all\": true`").at("/after"));
        }
        if self.ids.len() > IDS_MAX {
            let detail = format!("`ids` must have at most {IDS_MAX} ids; it has {}", self.ids.len());
            return Err(unprocessable("ids", detail).at("/ids"));
        }
        if self.all {
            let wrong = |text: &str| {
                unprocessable("after", format!("{text:?} is not the `next` of a response")).at("/after")
            };
            let after = self.after.as_deref().map(|text| id(text, what).map_err(|_| wrong(text)));
            return Ok(Chosen::AllAfter(after.transpose()?));
        }
        let number = |(place, text): (usize, &String)| {
            let wrong = || unprocessable("ids", format!("{text:?} is not an id")).at(format!("/ids/{place}"));
            id(text, what).map_err(|_| wrong())
        };
        self.ids.iter().enumerate().map(number).collect::<Result<_, _>>().map(Chosen::Ids)
    }
}

/// A change whose answer did not come may have happened; to repeat it does no harm.
pub(crate) fn repeatable(error: OutboxError) -> Problem {
    failed(error).detailed(
        "the database did not answer; the change may have happened: it can be repeated without harm",
    )
}

//! Replays or discards what failed: some dead messages or parked events by their ids, or all.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::api_client::{ApiClient, ApiTarget};
use crate::api_command::{print_answer, with_resource};
use crate::args::Confirm;
use crate::display::Progress;
use crate::failure::Failure;

/// What a command works on.
pub(super) struct Triage<'a> {
    /// `outboxes`
    pub(super) collection: &'a str,
    /// Name of the outbox or the subscription.
    pub(super) name: &'a str,
    /// `messages`
    pub(super) items: &'a str,
    /// `dead message`
    pub(super) noun: &'a str,
    pub(super) ids: &'a [String],
    pub(super) all: bool,
    pub(super) confirm: &'a Confirm,
    pub(super) target: &'a ApiTarget,
    /// The command that lists the items.
    pub(super) lists: String,
}

impl Triage<'_> {
    pub(super) fn run(self, verb: &str, done: &'static str) -> Result<ExitCode, Failure> {
        let noun = self.noun;
        if self.ids.is_empty() && !self.all {
            let hint = format!("`{}` lists them", self.lists);
            return Err(Failure::usage(format!("select {noun}s: their ids, or --all")).hint(hint));
        }
        with_resource(self.target, (self.collection, Some("name")), self.name, async |api, target, path| {
            let path = format!("{path}/{}:{verb}", self.items);
            let sum = match self.all {
                true => self.all(api, &path, done).await?,
                false => count(&*api.post(&path, json!({"ids": self.ids})).await?),
            };
            let response = json!({"count": sum, "next": null});
            let plural = if sum == 1 { "" } else { "s" };
            print_answer(target, &response.into(), &format!("{sum} {noun}{plural} {done}"))
        })
    }

    /// All, page by page.
    async fn all(&self, api: &ApiClient, path: &str, done: &'static str) -> Result<u64, Failure> {
        self.confirm.for_many(&format!("all {}s of {} are {done}", self.noun, self.name))?;
        let mut progress = Progress::without_total(done, !self.target.json);
        let (mut sum, mut after) = (0, None::<String>);
        loop {
            let mut body = json!({"all": true});
            if let Some(after) = after {
                body["after"] = after.into();
            }
            let changed = api.post(path, body).await?;
            sum += count(&changed);
            after = changed.get("next").and_then(Value::as_str).map(str::to_owned);
            if after.is_none() {
                return Ok(sum);
            }
            progress.set(sum);
        }
    }
}

fn count(response: &Value) -> u64 {
    response.get("count").and_then(Value::as_u64).unwrap_or_default()
}

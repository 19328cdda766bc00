//! Enqueues a job by hand.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use lineclear_model::duration;
use lineclear_model::secret::MASK;
use maud::html;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::App;
use crate::api::jobs::enqueue::enqueue_one;
use crate::api::json_body::JsonText;
use crate::api::run::{WAIT_MS, wait_for_end};
use crate::audit::AuditDetails;
use crate::auth::Caller;
use crate::idempotency::KeyedText;
use crate::long_poll::LongPoll;
use crate::middleware::trace::TraceParent;
use crate::pages::components::{cli_hint, shell_quote};
use crate::pages::confirm::{FormBody, redirect};
use crate::pages::layout::Layout;
use crate::pages::{Page, Region, Tab, View, html_response};
use crate::problem::Problem;

/// Nodes and groups that are read for suggestions.
const CHOICES: u32 = 200;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnqueueParams {
    /// A job to copy, except for its due time.
    like: Option<String>,
    kind: Option<String>,
}

/// The form.
#[derive(Clone, Default, Deserialize)]
pub(in crate::pages) struct EnqueueForm {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    input: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    priority: String,
    #[serde(default)]
    when: String,
    #[serde(default)]
    route: String,
    #[serde(default)]
    limit_key: String,
    /// Separated by spaces.
    #[serde(default)]
    tags: String,
    /// `wait`: the response comes when the job is over.
    #[serde(default)]
    then: String,
}

impl EnqueueForm {
    fn waits(&self) -> bool {
        self.then == "wait"
    }

    /// The JSON body for the API.
    fn body(&self) -> Result<String, Problem> {
        let text = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
        let priority = match self.priority.trim() {
            "" => 0,
            number => number.parse::<u8>().map_err(|_| {
                Problem::malformed(
                    "priority",
                    format!("`priority` must be a number from 0 to 31; it is {number:?}"),
                )
                .at("/priority")
            })?,
        };
        let (due_at, in_ms) = match self.when.trim() {
            "" | "now" => (None, None),
            _ if self.waits() => {
                let detail = "leave `when` empty to run the job and wait for it, or enqueue it for later";
                return Err(Problem::malformed("due_at", detail).at("/due_at"));
            }
            when => match duration::parse(when) {
                Ok(length) => (None, Some(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))),
                Err(_) => (Some(when.to_owned()), None),
            },
        };
        let mut body = json!({"kind": self.kind.trim(), "priority": priority});
        let fields = [
            ("group", text(&self.group).map(Into::into)),
            ("due_at", due_at.map(Into::into)),
            ("in_ms", in_ms.map(serde_json::Value::from)),
            ("route", text(&self.route).map(Into::into)),
            ("limit_key", text(&self.limit_key).map(Into::into)),
            ("tags", text(&self.tags).map(|tags| tags.split_whitespace().map(str::to_owned).collect())),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                body[name] = value;
            }
        }
        let body = body.to_string();
        // The input stays text: a parser would change large numbers.
        let Some(input) = text(&self.input) else { return Ok(body) };
        serde_json::from_str::<&RawValue>(&input).map_err(|bad| {
            Problem::malformed("input", format!("`input` must be JSON: {bad}")).at("/input")
        })?;
        Ok(format!("{},\"input\":{input}}}", body.trim_end_matches('}')))
    }

    fn cli(&self) -> String {
        let kind = if self.kind.is_empty() { "KIND".to_owned() } else { shell_quote(&self.kind) };
        let mut command = format!("lineclear job enqueue {kind}");
        if !self.input.trim().is_empty() {
            command += &format!(" --input {}", shell_quote(self.input.trim()));
        }
        let options = [
            ("--group", &self.group),
            ("--priority", &self.priority),
            ("--route", &self.route),
            ("--limit-key", &self.limit_key),
        ];
        for (option, value) in options {
            if !value.trim().is_empty() {
                command += &format!(" {option} {}", shell_quote(value.trim()));
            }
        }
        for tag in self.tags.split_whitespace() {
            command += &format!(" --tag {}", shell_quote(tag));
        }
        match self.when.trim() {
            "" | "now" => {}
            when if duration::parse(when).is_ok() => command += &format!(" --in {}", shell_quote(when)),
            when => command += &format!(" --at {}", shell_quote(when)),
        }
        command
    }
}

pub(in crate::pages) async fn page(view: &View<'_>) -> Result<Page, Problem> {
    let EnqueueParams { like, kind } = view.params()?;
    let mut typed = EnqueueForm { kind: kind.unwrap_or_default(), ..EnqueueForm::default() };
    if let Some(like) = like {
        let detail = super::detail::find(view, &like).await?;
        let input = detail.input.unwrap_or_default();
        let masked = detail.secrets.mask(&input);
        typed = EnqueueForm {
            kind: detail.job.kind,
            input: masked.unwrap_or_default(),
            group: detail.job.group.unwrap_or_default(),
            route: detail.job.route.filter(|route| route != "main").unwrap_or_default(),
            limit_key: detail.job.limit_key.unwrap_or_default(),
            tags: detail.job.tags.join(" "),
            ..EnqueueForm::default()
        };
    }
    form(view, &typed, None).await
}

async fn form(view: &View<'_>, typed: &EnqueueForm, wrong: Option<&Problem>) -> Result<Page, Problem> {
    let nodes = view.app.reading.nodes(CHOICES).await?;
    let known =
        nodes.iter().filter(|node| matches!(node.state(), "alive")).filter_map(|node| node.kinds.as_deref());
    let kinds: BTreeSet<String> =
        known.flat_map(|kinds| serde_json::from_str::<Vec<String>>(kinds).unwrap_or_default()).collect();
    let groups = view.app.reading.groups(None, CHOICES).await?.items;
    let at = wrong.and_then(Problem::pointer).unwrap_or_default();
    let error_of = |fields: &[&str]| {
        html! {
            @if let Some(problem) = wrong.filter(|_| fields.iter().any(|field| at == *field || at.starts_with(&format!("{field}/")))) { span.wrong role="alert" { (problem.detail()) } }
        }
    };
    let is_placed =
        ["/kind", "/input", "/group", "/priority", "/due_at", "/in_ms", "/route", "/limit_key", "/tags"]
            .iter()
            .any(|field| at.starts_with(field));
    let html = html! {
        form.card.ask method="post" action=(view.link("/enqueue")) {
            h1 { "Enqueue a job" }
            @if let Some(problem) = wrong.filter(|_| !is_placed) { p.wrong role="alert" { (problem.detail()) } }
            @if typed.input.contains(MASK) { p.wrong { "Secret values of the input are masked: enter them again." } }
            div.field {
                label for="kind" { "Kind" }
                input #kind name="kind" value=(typed.kind) list="kinds" required maxlength="128" autocomplete="off" spellcheck="false";
                datalist #kinds { @for kind in &kinds { option value=(kind) {} } }
                span.muted { @if kinds.is_empty() { "No live node reports its kinds. The job waits until a node runs its kind." } @else { "Live nodes and workers run: " (kinds.iter().take(12).cloned().collect::<Vec<_>>().join(", ")) @if kinds.len() > 12 { ", …" } } }
                (error_of(&["/kind"]))
            }
            div.field { label for="input" { "Input" } textarea #input name="input" spellcheck="false" placeholder="{}" { (typed.input) } span.muted { "Any JSON, up to 256 KiB." } (error_of(&["/input"])) }
            div.three.fields {
                div.field { label for="group" { "Group" } input #group name="group" value=(typed.group) list="groups" autocomplete="off"; datalist #groups { @for group in groups.iter().filter(|group| group.name != "*") { option value=(group.name) {} } } (error_of(&["/group"])) }
                div.field { label for="priority" { "Priority" } input #priority name="priority" type="number" min="0" max="31" value=(typed.priority) placeholder="0"; (error_of(&["/priority"])) }
                div.field { label for="when" { "When" } input #when name="when" value=(typed.when) placeholder="now, 10m, or 2026-11-16T18:00:00Z" autocomplete="off"; (error_of(&["/due_at", "/in_ms"])) }
            }
            details open[[&typed.route, &typed.limit_key, &typed.tags].iter().any(|text| !text.is_empty())] {
                summary { "Route, limit and tags" }
                div.three.fields {
                    div.field { label for="route" { "Route" } input #route name="route" value=(typed.route) placeholder="main" autocomplete="off"; (error_of(&["/route"])) }
                    div.field { label for="limit_key" { "Limit key" } input #limit_key name="limit_key" value=(typed.limit_key) placeholder="one job at a time per key" autocomplete="off"; (error_of(&["/limit_key"])) }
                    div.field { label for="tags" { "Tags" } input #tags name="tags" value=(typed.tags) placeholder="for searches" autocomplete="off"; (error_of(&["/tags"])) }
                }
            }
            div.buttons { button.primary type="submit" { "Enqueue" } button type="submit" name="then" value="wait" title=(format!("Waits for its end, up to {} seconds, then shows the job with its output", WAIT_MS / 1_000)) { "Run and wait" } a.button href=(view.link("/jobs")) { "Cancel" } }
            (cli_hint(&typed.cli()))
        }
    };
    Ok(Page {
        title: "Enqueue".to_owned(),
        tab: Tab::Enqueue,
        regions: vec![Region::new("ask", html)],
        live: false,
    })
}

/// A refusal shows the form again, with what was typed and the error beside its field.
pub(in crate::pages) async fn enqueue(
    State(app): State<App>,
    caller: Caller,
    audit: AuditDetails,
    trace: TraceParent,
    poll: LongPoll,
    request: Request,
) -> Result<Response, Problem> {
    let (headers, uri): (HeaderMap, _) = (request.headers().clone(), request.uri().clone());
    let FormBody(typed) = FormBody::<EnqueueForm>::from_request(request, &()).await?;
    let enqueued = async {
        let text = JsonText::check(typed.body()?.as_bytes())?;
        enqueue_one(&app, &audit, trace, KeyedText { key: None, text }).await
    };
    match enqueued.await {
        Ok(reply) => {
            if let Some(job) = reply.job().filter(|_| typed.waits()) {
                wait_for_end(&app, &poll, job, Duration::from_millis(WAIT_MS)).await;
            }
            Ok(redirect(&app, &reply.job().map_or("/jobs".to_owned(), |job| format!("/jobs/{job}"))))
        }
        Err(problem) if problem.status().is_client_error() => {
            let view = View { app: &app, scopes: &caller.0.scopes, uri: &uri };
            let page = form(&view, &typed, Some(&problem)).await?;
            Ok(html_response(problem.status(), Layout::of(&app, Some(&caller.0), &headers, &uri).wrap(page)))
        }
        Err(problem) => Err(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::EnqueueForm;

    fn typed(input: &str, when: &str) -> EnqueueForm {
        EnqueueForm {
            kind: "mail".to_owned(),
            input: input.to_owned(),
            when: when.to_owned(),
            ..EnqueueForm::default()
        }
    }

    #[test]
    fn an_input_is_one_value_and_nothing_beside_it() {
        let body = typed("{\"n\": 12345678901234567890123}", "").body().unwrap();
        assert_eq!(body, r#"{"kind":"mail","priority":0,"input":{"n": 12345678901234567890123}}"#);
        for broken in ["1, \"limit_key\": \"x\"", "1}, {", "{", "nope"] {
            assert_eq!(typed(broken, "").body().unwrap_err().pointer(), Some("/input"), "{broken}");
        }
    }

    #[test]
    fn the_shown_command_contains_all_values_of_the_form() {
        let typed = EnqueueForm {
            group: "etl".to_owned(),
            priority: "3".to_owned(),
            route: "slow".to_owned(),
            limit_key: "customer 7".to_owned(),
            tags: "a b".to_owned(),
            ..typed("{\"to\": \"it's\"}", "10m")
        };
        let said = "lineclear job enqueue mail --input '{\"to\": \"it'\\''s\"}' --group etl --priority 3 --route slow --limit-key 'customer 7' --tag a --tag b --in 10m";
        assert_eq!(typed.cli(), said);
        assert_eq!(super::EnqueueForm::default().cli(), "lineclear job enqueue KIND");
    }

    #[test]
    fn when_is_now_a_length_or_a_moment() {
        assert!(typed("", "10m").body().unwrap().contains("\"in_ms\":600000"));
        assert!(typed("", "2026-11-16T18:00:00Z").body().unwrap().contains("\"due_at\":\"2026"));
        assert!(!typed("", "now").body().unwrap().contains("due"));
    }
}

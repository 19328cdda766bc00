//! A job by hand: of a kind that some node runs, with any JSON.

use std::collections::BTreeSet;

use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use lineclear_model::duration;
use lineclear_model::secret::DOTS;
use maud::html;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::action::{Filled, done};
use super::frame::Frame;
use super::part::{cli, quoted};
use super::{Page, Region, Tab, View, answer};
use crate::App;
use crate::access::Who;
use crate::api::jobs::create;
use crate::audit::Note;
use crate::body;
use crate::once::Keyed;
use crate::problem::Problem;
use crate::trace::Trace;

/// Nodes and groups that are looked at for what can be chosen.
const CHOICES: u32 = 200;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    /// A job to begin with: all of it that is known, but for when it runs.
    like: Option<String>,
    kind: Option<String>,
}

/// What was typed.
#[derive(Clone, Default, Deserialize)]
pub(super) struct Typed {
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
    /// With spaces between them.
    #[serde(default)]
    tags: String,
}

impl Typed {
    /// As the API takes it.
    fn body(&self) -> Result<String, Problem> {
        let text = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
        let priority = match self.priority.trim() {
            "" => 0,
            number => number.parse::<u8>().map_err(|_| {
                Problem::malformed("priority", format!("{number:?} is no number from 0 to 31"))
                    .at("/priority")
            })?,
        };
        let (due_at, in_ms) = match self.when.trim() {
            "" | "now" => (None, None),
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
        // The input is put in as it was written: numbers too large for a parser stay what they are.
        let Some(input) = text(&self.input) else { return Ok(body) };
        serde_json::from_str::<&RawValue>(&input)
            .map_err(|bad| Problem::malformed("input", format!("this is no JSON: {bad}")).at("/input"))?;
        Ok(format!("{},\"input\":{input}}}", body.trim_end_matches('}')))
    }

    fn cli(&self) -> String {
        let kind = if self.kind.is_empty() { "KIND".to_owned() } else { quoted(&self.kind) };
        let mut command = format!("lineclear job enqueue {kind}");
        if !self.input.trim().is_empty() {
            command += &format!(" --input {}", quoted(self.input.trim()));
        }
        let options = [
            ("--group", &self.group),
            ("--priority", &self.priority),
            ("--route", &self.route),
            ("--limit-key", &self.limit_key),
        ];
        for (option, value) in options {
            if !value.trim().is_empty() {
                command += &format!(" {option} {}", quoted(value.trim()));
            }
        }
        for tag in self.tags.split_whitespace() {
            command += &format!(" --tag {}", quoted(tag));
        }
        match self.when.trim() {
            "" | "now" => {}
            when if duration::parse(when).is_ok() => command += &format!(" --in {when}"),
            when => command += &format!(" --at {}", quoted(when)),
        }
        command
    }
}

pub(super) async fn page(view: &View<'_>) -> Result<Page, Problem> {
    let Which { like, kind } = view.asked()?;
    let mut typed = Typed { kind: kind.unwrap_or_default(), ..Typed::default() };
    if let Some(like) = like {
        let detail = super::job::find(view, &like).await?;
        let input = detail.input.unwrap_or_default();
        let masked = detail.secrets.mask(&input);
        typed = Typed {
            kind: detail.job.kind,
            input: masked.unwrap_or_default(),
            group: detail.job.group.unwrap_or_default(),
            route: detail.job.route.filter(|route| route != "main").unwrap_or_default(),
            limit_key: detail.job.limit_key.unwrap_or_default(),
            tags: detail.job.tags.join(" "),
            ..Typed::default()
        };
    }
    form(view, &typed, None).await
}

async fn form(view: &View<'_>, typed: &Typed, wrong: Option<&Problem>) -> Result<Page, Problem> {
    let nodes = view.app.reading.nodes(CHOICES).await?;
    let known =
        nodes.iter().filter(|node| matches!(node.state(), "alive")).filter_map(|node| node.kinds.as_deref());
    let kinds: BTreeSet<String> =
        known.flat_map(|kinds| serde_json::from_str::<Vec<String>>(kinds).unwrap_or_default()).collect();
    let groups = view.app.reading.groups(None, CHOICES).await?.items;
    let at = wrong.and_then(Problem::pointer).unwrap_or_default();
    let says = |fields: &[&str]| {
        html! {
            @if let Some(problem) = wrong.filter(|_| fields.iter().any(|field| at == *field || at.starts_with(&format!("{field}/")))) { span.wrong role="alert" { (problem.said().1) } }
        }
    };
    let is_placed =
        ["/kind", "/input", "/group", "/priority", "/due_at", "/in_ms", "/route", "/limit_key", "/tags"]
            .iter()
            .any(|field| at.starts_with(field));
    let html = html! {
        form.card.ask method="post" action=(view.link("/enqueue")) {
            h1 { "Enqueue a job" }
            @if let Some(problem) = wrong.filter(|_| !is_placed) { p.wrong role="alert" { (problem.said().1) } }
            @if typed.input.contains(DOTS) { p.wrong { "Secret values of that job's input are dots here: write them again." } }
            div.field {
                label for="kind" { "Kind" }
                input #kind name="kind" value=(typed.kind) list="kinds" required maxlength="128" autocomplete="off" spellcheck="false";
                datalist #kinds { @for kind in &kinds { option value=(kind) {} } }
                span.muted { @if kinds.is_empty() { "No live node says which kinds it runs; a job of an unknown kind waits until one comes." } @else { "Nodes that are alive run: " (kinds.iter().take(12).cloned().collect::<Vec<_>>().join(", ")) @if kinds.len() > 12 { ", …" } } }
                (says(&["/kind"]))
            }
            div.field { label for="input" { "Input" } textarea #input name="input" spellcheck="false" placeholder="{}" { (typed.input) } span.muted { "Any JSON, 256 KiB at most." } (says(&["/input"])) }
            div.three.fields {
                div.field { label for="group" { "Group" } input #group name="group" value=(typed.group) list="groups" autocomplete="off"; datalist #groups { @for group in groups.iter().filter(|group| group.name != "*") { option value=(group.name) {} } } (says(&["/group"])) }
                div.field { label for="priority" { "Priority" } input #priority name="priority" type="number" min="0" max="31" value=(typed.priority) placeholder="0"; (says(&["/priority"])) }
                div.field { label for="when" { "When" } input #when name="when" value=(typed.when) placeholder="now, 10m, or 2026-11-16T18:00:00Z" autocomplete="off"; (says(&["/due_at", "/in_ms"])) }
            }
            details open[[&typed.route, &typed.limit_key, &typed.tags].iter().any(|text| !text.is_empty())] {
                summary { "Lane, limit and tags" }
                div.three.fields {
                    div.field { label for="route" { "Route" } input #route name="route" value=(typed.route) placeholder="main" autocomplete="off"; (says(&["/route"])) }
                    div.field { label for="limit_key" { "Limit key" } input #limit_key name="limit_key" value=(typed.limit_key) placeholder="one at a time of each" autocomplete="off"; (says(&["/limit_key"])) }
                    div.field { label for="tags" { "Tags" } input #tags name="tags" value=(typed.tags) placeholder="words to find it by" autocomplete="off"; (says(&["/tags"])) }
                }
            }
            div.buttons { button.primary type="submit" { "Enqueue" } a.button href=(view.link("/jobs")) { "Leave it" } }
            (cli(&typed.cli()))
        }
    };
    Ok(Page {
        title: "Enqueue".to_owned(),
        tab: Tab::Enqueue,
        regions: vec![Region::new("ask", html)],
        live: false,
    })
}

/// What is refused stands beside its field, and nothing that was typed is lost.
pub(super) async fn enqueue(
    State(app): State<App>,
    who: Who,
    note: Note,
    trace: Trace,
    request: Request,
) -> Result<Response, Problem> {
    let (headers, uri): (HeaderMap, _) = (request.headers().clone(), request.uri().clone());
    let Filled(typed) = Filled::<Typed>::from_request(request, &()).await?;
    let made = async {
        let body = body::read(typed.body()?.as_bytes())?;
        create::one(&app, &note, trace, Keyed { once: None, body }).await
    };
    match made.await {
        Ok(reply) => Ok(done(&app, &reply.job().map_or("/jobs".to_owned(), |job| format!("/jobs/{job}")))),
        Err(problem) if problem.status().is_client_error() => {
            let view = View { app: &app, scopes: &who.0.scopes, uri: &uri };
            let page = form(&view, &typed, Some(&problem)).await?;
            Ok(answer(problem.status(), Frame::of(&app, Some(&who.0), &headers, &uri).around(page)))
        }
        Err(problem) => Err(problem),
    }
}

#[cfg(test)]
mod tests {
    use super::Typed;

    fn typed(input: &str, when: &str) -> Typed {
        Typed { kind: "mail".to_owned(), input: input.to_owned(), when: when.to_owned(), ..Typed::default() }
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
    fn the_command_line_says_all_that_was_typed() {
        let typed = Typed {
            group: "etl".to_owned(),
            priority: "3".to_owned(),
            route: "slow".to_owned(),
            limit_key: "customer 7".to_owned(),
            tags: "a b".to_owned(),
            ..typed("{\"to\": \"it's\"}", "10m")
        };
        let said = "lineclear job enqueue mail --input '{\"to\": \"it'\\''s\"}' --group etl --priority 3 --route slow --limit-key 'customer 7' --tag a --tag b --in 10m";
        assert_eq!(typed.cli(), said);
        assert_eq!(super::Typed::default().cli(), "lineclear job enqueue KIND");
    }

    #[test]
    fn when_is_now_a_length_or_a_moment() {
        assert!(typed("", "10m").body().unwrap().contains("\"in_ms\":600000"));
        assert!(typed("", "2026-11-16T18:00:00Z").body().unwrap().contains("\"due_at\":\"2026"));
        assert!(!typed("", "now").body().unwrap().contains("due"));
    }
}

//! Dead letters: families with the same error first, then the list.

use lineclear::read::{DeadLetterView, FamilyView};
use lineclear::store::{DeadLetterFilter, DeadLetterId};
use lineclear_model::{DeadReason, Scope};
use maud::{Markup, html};
use serde::Deserialize;

use super::components::{self, cli_hint, count, escape_query, moment, number};
use super::{Page, Region, Tab, View, export};
use crate::api::dead_letters::STATUSES;
use crate::api::dead_letters::matching::DeadLetterFilterBody;
use crate::api::json_types::id;
use crate::api::pagination::cursor;
use crate::problem::Problem;

const ROWS: u32 = 50;

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListParams {
    kind: Option<String>,
    manifest: Option<String>,
    group: Option<String>,
    fingerprint: Option<String>,
    reason: Option<String>,
    status: Option<String>,
    cursor: Option<String>,
}

impl ListParams {
    fn filter(&self) -> Result<DeadLetterFilter, Problem> {
        let ListParams { kind, manifest, group, fingerprint, reason, .. } = self.clone();
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let body = DeadLetterFilterBody {
            kind: given(kind),
            manifest: given(manifest),
            group: given(group),
            fingerprint: given(fingerprint),
            reason: given(reason),
            ..DeadLetterFilterBody::default()
        };
        body.filter().map_err(Problem::in_query)
    }

    fn status(&self) -> Result<&str, Problem> {
        let status = self.status.as_deref().filter(|word| !word.is_empty()).unwrap_or("awaiting");
        if STATUSES.contains(&status) {
            return Ok(status);
        }
        let detail = format!("`status` must be one of {}; it is {status:?}", STATUSES.join(", "));
        Err(Problem::malformed("status", detail))
    }

    /// The link of the page with this filter; empty fields are left out.
    fn address(&self, cursor: Option<&str>) -> String {
        let fields = [
            ("kind", self.kind.as_deref()),
            ("manifest", self.manifest.as_deref()),
            ("group", self.group.as_deref()),
            ("fingerprint", self.fingerprint.as_deref()),
            ("reason", self.reason.as_deref()),
            ("status", self.status.as_deref()),
            ("cursor", cursor),
        ];
        let given = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)));
        let pairs: Vec<String> =
            given.map(|(name, value)| format!("{name}={}", escape_query(value))).collect();
        format!("/dead-letters?{}", pairs.join("&"))
    }
}

/// The filter of an export, which has all pages.
pub(super) fn filter(view: &View<'_>) -> Result<(DeadLetterFilter, String), Problem> {
    let params: ListParams = view.params()?;
    Ok((params.filter()?, params.status()?.to_owned()))
}

pub(super) async fn page(view: &View<'_>) -> Result<Page, Problem> {
    let params: ListParams = view.params()?;
    let status = params.status()?;
    let filter = params.filter()?;
    let before = cursor(params.cursor.as_deref(), |text| id(text, "").ok().map(DeadLetterId))?;
    let store = &view.app.reading;
    let (families, letters) = tokio::try_join!(
        store.dead_families(&filter, ROWS),
        store.dead_letters_matching(&filter, Some(status), before, ROWS)
    )?;
    let is_awaiting = status == "awaiting";
    let list = html! {
        @if letters.items.is_empty() { (no_dead_letters(view, status, &filter, letters.next.is_some())) }
        @else { (table(view, &letters.items, is_awaiting)) }
        nav.pager aria-label="Pages" {
            @if before.is_some() { a.button href=(view.link(&params.address(None))) { "Newest" } }
            @if let Some(next) = letters.next { a.button rel="next" href=(view.link(&params.address(Some(&next.to_string())))) { "Older" } }
        }
    };
    let total = families.total;
    let mut regions = vec![Region::new("head", head(view, &params, status, total, families.is_exact))];
    let families = if is_awaiting && before.is_none() { families.items } else { Vec::new() };
    regions.push(Region::new(
        "families",
        html! { @if !families.is_empty() { section.families { @for family in &families { (card(view, &params, family)) } } } },
    ));
    regions.push(Region::new("list", list));
    let title =
        if is_awaiting { format!("{} dead letters", count(total)) } else { "Dead letters".to_owned() };
    Ok(Page { title, tab: Tab::DeadLetters, regions, live: before.is_none() })
}

fn head(view: &View<'_>, params: &ListParams, status: &str, total: u64, is_exact: bool) -> Markup {
    let field = |name: &str, value: &Option<String>| {
        html! {
            label.hidden for=(name) { (name) } input id=(name) name=(name) value=(value.as_deref().unwrap_or_default()) placeholder=(name) size="12";
        }
    };
    html! {
        div.bar {
            h1 { "Dead letters" }
            @if status == "awaiting" { span.muted { (number(total)) @if !is_exact { "+" } @if total == 1 { " is awaiting" } @else { " are awaiting" } } }
            nav.pills aria-label="Status" { @for word in STATUSES {
                a.pill href=(view.link(&ListParams { status: (word != "awaiting").then(|| word.to_owned()), ..params.clone() }.address(None))) aria-current=[(word == status).then_some("true")] { (word) }
            } }
            form.filter method="get" action=(view.link("/dead-letters")) {
                (field("kind", &params.kind)) (field("manifest", &params.manifest)) (field("group", &params.group)) (field("fingerprint", &params.fingerprint)) (reasons(params.reason.as_deref()))
                @if status != "awaiting" { input type="hidden" name="status" value=(status); }
                button type="submit" { "Filter" }
            }
            (export::links(view, "/dead-letters"))
        }
    }
}

fn reasons(chosen: Option<&str>) -> Markup {
    html! {
        label.hidden for="reason" { "reason" }
        select #reason name="reason" {
            option value="" { "any reason" }
            @for reason in DeadReason::ALL { option value=(reason) selected[chosen == Some(reason.as_str())] { (reason.as_str().replace('_', " ")) } }
        }
    }
}

/// The query of a family, limited to the filter of the page: an action changes as many jobs as the card says.
fn query(params: &ListParams, family: &FamilyView) -> String {
    let mut q = format!("state:dead kind:{} reason:{}", family.kind, family.reason);
    match &family.fingerprint {
        Some(fingerprint) => q.push_str(&format!(" fingerprint:{fingerprint}")),
        None => q.push_str(" -fingerprint:*"),
    }
    for (field, name) in [("manifest", &params.manifest), ("group", &params.group)] {
        if let Some(name) = name.as_deref().filter(|name| !name.trim().is_empty()) {
            q.push_str(&format!(" {field}:{name}"));
        }
    }
    q
}

/// The filter of a family. A family without a fingerprint has the reason that its workers were lost.
fn only(params: &ListParams, family: &FamilyView) -> ListParams {
    ListParams {
        kind: Some(family.kind.clone()),
        fingerprint: family.fingerprint.clone(),
        reason: Some(family.reason.to_string()),
        cursor: None,
        ..params.clone()
    }
}

fn card(view: &View<'_>, params: &ListParams, family: &FamilyView) -> Markup {
    let q = escape_query(&query(params, family));
    let key = family.fingerprint.as_deref().unwrap_or("none");
    html! {
        article.card.family data-key={ (family.kind) "-" (family.reason.as_str()) "-" (key) } {
            div.bar {
                span.badge.dead { span.glyph aria-hidden="true" { "✕" } " " (number(family.count)) }
                strong { (family.kind) }
                span.muted { (family.reason.as_str().replace('_', " ")) }
                span.muted { "first " (moment(family.first_at)) " · last " (moment(family.last_at)) }
                @if view.can(Scope::Operate) { div.buttons {
                    a.button.primary href=(view.link(&format!("/bulk-operations/new?action=revive&q={q}"))) { "Revive" }
                    a.button href=(view.link(&format!("/bulk-operations/new?action=revive&mode=canary&q={q}"))) title="One job first, the others when it has completed" { "Canary" }
                    a.button href=(view.link(&format!("/bulk-operations/new?action=acknowledge&q={q}"))) { "Acknowledge" }
                } }
            }
            pre.wrong { (family.last_error.as_deref().map_or("No error.".to_owned(), |error| error.chars().take(600).collect())) }
            p.muted {
                a href=(view.link(&format!("/jobs/{}", family.job))) { "newest: job " (family.job) }
                " · " a href=(view.link(&only(params, family).address(None))) { "show only these" }
                @if let Some(fingerprint) = &family.fingerprint { " · fingerprint " code { (fingerprint) } }
            }
        }
    }
}

fn table(view: &View<'_>, letters: &[DeadLetterView], is_awaiting: bool) -> Markup {
    let can_operate = view.can(Scope::Operate) && is_awaiting;
    html! {
        form #bulk method="get" action=(view.link("/bulk-operations/new")) {
            @if can_operate { div.bar.selection { button type="submit" name="action" value="revive" { "Revive selected" } button type="submit" name="action" value="acknowledge" { "Acknowledge selected" } } }
            div.scroll { table.list {
                thead { tr { @if can_operate { th.check scope="col" { span.hidden { "Select" } } } th scope="col" { "Job" } th scope="col" { "Name" } th scope="col" { "Reason" } th scope="col" { "Died" } th.number scope="col" { "Failures" } @if !is_awaiting { th scope="col" { "Resolved" } th scope="col" { "Note" } } th scope="col" { "Error" } } }
                tbody { @for letter in letters { tr data-key=(letter.id) {
                    @if can_operate { td.check { input type="checkbox" name="id" value=(letter.job) aria-label={ "Job " (letter.job) }; } }
                    td { a href=(view.link(&format!("/jobs/{}", letter.job))) { (letter.job) } }
                    td { (letter.manifest.as_deref().unwrap_or(&letter.kind)) }
                    td { (letter.reason.as_str().replace('_', " ")) }
                    td { (moment(letter.dead_at)) }
                    td.number { (letter.failures) @if letter.crashes > 0 { ", " (letter.crashes) " crashes" } }
                    @if !is_awaiting {
                        td { @if let Some(at) = letter.resolved_at { (moment(at)) } @if let Some(by) = &letter.resolved_by { " by " (by) } }
                        td.error { (letter.note.as_deref().unwrap_or_default()) }
                    }
                    td.error { (letter.last_error.as_deref().map(components::first_line).unwrap_or_default()) }
                } } }
            } }
        }
    }
}

fn no_dead_letters(view: &View<'_>, status: &str, filter: &DeadLetterFilter, more: bool) -> Markup {
    if more {
        return components::empty_state(
            "No match in these rows",
            html! { p { "A filter scans a bounded number of rows at a time. Choose Older to continue." } },
        );
    }
    if status == "awaiting" && *filter == DeadLetterFilter::default() {
        return components::empty_state(
            "No dead letters",
            html! {
                p { "A job comes here when its retries are used up, it fails permanently, or its workers are lost repeatedly. It waits until you revive or acknowledge it." }
                (cli_hint("lineclear dead-letter list"))
            },
        );
    }
    components::empty_state(
        "No matching dead letters",
        html! { p { "No stored dead letter is " (status) " and matches the filter. Resolved ones are deleted after the retention time." } p { a.button href=(view.link("/dead-letters")) { "All awaiting dead letters" } } },
    )
}

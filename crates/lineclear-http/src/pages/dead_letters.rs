//! Dead letters: families of those that died alike first, because one cause often has many; then each.

use lineclear::store::views::{DeadLetterView, FamilyView};
use lineclear::store::{DeadLetterFilter, DeadLetterId};
use lineclear_model::{DeadReason, Scope};
use maud::{Markup, html};
use serde::Deserialize;

use super::part::{self, cli, count, escaped, moment, number};
use super::{Page, Region, Tab, View, export};
use crate::api::dead_letters::MatchingBody;
use crate::api::page::cursor;
use crate::api::shape::id;
use crate::problem::Problem;

const ROWS: u32 = 50;

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    kind: Option<String>,
    manifest: Option<String>,
    group: Option<String>,
    fingerprint: Option<String>,
    reason: Option<String>,
    status: Option<String>,
    cursor: Option<String>,
}

impl Which {
    fn filter(&self) -> Result<DeadLetterFilter, Problem> {
        let Which { kind, manifest, group, fingerprint, reason, .. } = self.clone();
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let body = MatchingBody {
            kind: given(kind),
            manifest: given(manifest),
            group: given(group),
            fingerprint: given(fingerprint),
            reason: given(reason),
            ..MatchingBody::default()
        };
        body.filter().map_err(Problem::in_query)
    }

    fn status(&self) -> Result<&str, Problem> {
        let status = self.status.as_deref().filter(|word| !word.is_empty()).unwrap_or("awaiting");
        if ["awaiting", "revived", "acknowledged"].contains(&status) {
            return Ok(status);
        }
        let detail = format!("{status:?} is none of awaiting, revived and acknowledged");
        Err(Problem::malformed("status", detail))
    }

    /// With another value of one field; what is empty is left out.
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
        let said = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)));
        let pairs: Vec<String> = said.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        format!("/dead-letters?{}", pairs.join("&"))
    }
}

/// Which, for a file of them: all of them, wherever the page begins.
pub(super) fn filter(view: &View<'_>) -> Result<(DeadLetterFilter, String), Problem> {
    let asked: Which = view.asked()?;
    Ok((asked.filter()?, asked.status()?.to_owned()))
}

pub(super) async fn page(view: &View<'_>) -> Result<Page, Problem> {
    let asked: Which = view.asked()?;
    let status = asked.status()?;
    let filter = asked.filter()?;
    let before = cursor(asked.cursor.as_deref(), |text| id(text, "").ok().map(DeadLetterId))?;
    let store = &view.app.reading;
    let (families, letters) = tokio::try_join!(
        store.dead_families(&filter, ROWS),
        store.dead_letters_matching(&filter, Some(status), before, ROWS)
    )?;
    let awaits = status == "awaiting";
    let list = html! {
        @if letters.items.is_empty() { (nothing(view, status, &filter, letters.next.is_some())) }
        @else { (table(view, &letters.items, awaits)) }
        nav.pager aria-label="Pages" {
            @if before.is_some() { a.button href=(view.link(&asked.address(None))) { "Newest" } }
            @if let Some(next) = letters.next { a.button rel="next" href=(view.link(&asked.address(Some(&next.to_string())))) { "Older" } }
        }
    };
    let total = families.total;
    let mut regions = vec![Region::new("head", head(view, &asked, status, total, families.is_exact))];
    let families = if awaits && before.is_none() { families.items } else { Vec::new() };
    regions.push(Region::new(
        "families",
        html! { @if !families.is_empty() { section.families { @for family in &families { (card(view, &asked, family)) } } } },
    ));
    regions.push(Region::new("list", list));
    let title = if awaits { format!("{} dead letters", count(total)) } else { "Dead letters".to_owned() };
    Ok(Page { title, tab: Tab::Dead, regions, live: before.is_none() })
}

fn head(view: &View<'_>, asked: &Which, status: &str, total: u64, is_exact: bool) -> Markup {
    let field = |name: &str, value: &Option<String>| {
        html! {
            label.hidden for=(name) { (name) } input id=(name) name=(name) value=(value.as_deref().unwrap_or_default()) placeholder=(name) size="12";
        }
    };
    html! {
        div.bar {
            h1 { "Dead letters" }
            @if status == "awaiting" { span.muted { (number(total)) @if !is_exact { "+" } @if total == 1 { " awaits a person" } @else { " await a person" } } }
            nav.pills aria-label="Status" { @for word in ["awaiting", "revived", "acknowledged"] {
                a.pill href=(view.link(&Which { status: (word != "awaiting").then(|| word.to_owned()), ..asked.clone() }.address(None))) aria-current=[(word == status).then_some("true")] { (word) }
            } }
            form.filter method="get" action=(view.link("/dead-letters")) {
                (field("kind", &asked.kind)) (field("manifest", &asked.manifest)) (field("group", &asked.group)) (field("fingerprint", &asked.fingerprint)) (reasons(asked.reason.as_deref()))
                @if status != "awaiting" { input type="hidden" name="status" value=(status); }
                button type="submit" { "Filter" }
            }
            (export::links(view, "/dead-letters"))
        }
    }
}

fn reasons(asked: Option<&str>) -> Markup {
    html! {
        label.hidden for="reason" { "reason" }
        select #reason name="reason" {
            option value="" { "any reason" }
            @for reason in DeadReason::ALL { option value=(reason) selected[asked == Some(reason.as_str())] { (reason.as_str().replace('_', " ")) } }
        }
    }
}

/// What the search language calls a family, of those that the page shows: what is done is done to as many as the card says.
fn query(asked: &Which, family: &FamilyView) -> String {
    let mut q = format!("state:dead kind:{} reason:{}", family.kind, family.reason);
    match &family.fingerprint {
        Some(fingerprint) => q.push_str(&format!(" fingerprint:{fingerprint}")),
        None => q.push_str(" -fingerprint:*"),
    }
    for (field, name) in [("manifest", &asked.manifest), ("group", &asked.group)] {
        if let Some(name) = name.as_deref().filter(|name| !name.trim().is_empty()) {
            q.push_str(&format!(" {field}:{name}"));
        }
    }
    q
}

/// Where only these are. A family without a fingerprint is told by its reason: only workers that vanished leave none.
fn only(asked: &Which, family: &FamilyView) -> Which {
    Which {
        kind: Some(family.kind.clone()),
        fingerprint: family.fingerprint.clone(),
        reason: Some(family.reason.to_string()),
        cursor: None,
        ..asked.clone()
    }
}

fn card(view: &View<'_>, asked: &Which, family: &FamilyView) -> Markup {
    let q = escaped(&query(asked, family));
    let key = family.fingerprint.as_deref().unwrap_or("none");
    html! {
        article.card.family data-key={ (family.kind) "-" (family.reason.as_str()) "-" (key) } {
            div.bar {
                span.badge.dead { span.glyph aria-hidden="true" { "✕" } " " (number(family.count)) }
                strong { (family.kind) }
                span.muted { (family.reason.as_str().replace('_', " ")) }
                span.muted { "first " (moment(family.first_at)) " · last " (moment(family.last_at)) }
                @if view.may(Scope::Operate) { div.buttons {
                    a.button.primary href=(view.link(&format!("/batches/new?action=revive&q={q}"))) { "Revive" }
                    a.button href=(view.link(&format!("/batches/new?action=revive&mode=canary&q={q}"))) title="One first; the rest if it completes" { "Canary" }
                    a.button href=(view.link(&format!("/batches/new?action=acknowledge&q={q}"))) { "Acknowledge" }
                } }
            }
            pre.wrong { (family.last_error.as_deref().map_or("It died of no error.".to_owned(), |error| error.chars().take(600).collect())) }
            p.muted {
                a href=(view.link(&format!("/jobs/{}", family.job))) { "newest: job " (family.job) }
                " · " a href=(view.link(&only(asked, family).address(None))) { "only these" }
                @if let Some(fingerprint) = &family.fingerprint { " · family " code { (fingerprint) } }
            }
        }
    }
}

fn table(view: &View<'_>, letters: &[DeadLetterView], awaits: bool) -> Markup {
    let may = view.may(Scope::Operate) && awaits;
    html! {
        form #bulk method="get" action=(view.link("/batches/new")) {
            @if may { div.bar.selection { button type="submit" name="action" value="revive" { "Revive selected" } button type="submit" name="action" value="acknowledge" { "Acknowledge selected" } } }
            div.scroll { table.list {
                thead { tr { @if may { th.check scope="col" { span.hidden { "Select" } } } th scope="col" { "Job" } th scope="col" { "What" } th scope="col" { "Why" } th scope="col" { "Died" } th.number scope="col" { "Failures" } @if !awaits { th scope="col" { "Resolved" } th scope="col" { "Note" } } th scope="col" { "Error" } } }
                tbody { @for letter in letters { tr data-key=(letter.id) {
                    @if may { td.check { input type="checkbox" name="id" value=(letter.job) aria-label={ "Job " (letter.job) }; } }
                    td { a href=(view.link(&format!("/jobs/{}", letter.job))) { (letter.job) } }
                    td { (letter.manifest.as_deref().unwrap_or(&letter.kind)) }
                    td { (letter.reason.as_str().replace('_', " ")) }
                    td { (moment(letter.dead_at)) }
                    td.number { (letter.failures) @if letter.crashes > 0 { ", " (letter.crashes) " crashes" } }
                    @if !awaits {
                        td { @if let Some(at) = letter.resolved_at { (moment(at)) } @if let Some(by) = &letter.resolved_by { " by " (by) } }
                        td.error { (letter.note.as_deref().unwrap_or_default()) }
                    }
                    td.error { (letter.last_error.as_deref().map(part::line).unwrap_or_default()) }
                } } }
            } }
        }
    }
}

fn nothing(view: &View<'_>, status: &str, filter: &DeadLetterFilter, more: bool) -> Markup {
    if more {
        return part::empty(
            "Nothing among these",
            html! { p { "A filter looks through a bounded number of rows at a time. Older looks on." } },
        );
    }
    if status == "awaiting" && *filter == DeadLetterFilter::default() {
        return part::empty(
            "No dead letter awaits anybody",
            html! {
                p { "A job that used up its tries, failed for good, or whose workers kept vanishing comes here, and waits for a person." }
                (cli("lineclear dead list"))
            },
        );
    }
    part::empty(
        "None fits",
        html! { p { "No dead letter that is kept is " (status) " and fits the filter. Resolved ones are kept for a while only." } p { a.button href=(view.link("/dead-letters")) { "All that await a person" } } },
    )
}

//! The timeline of locks: a lane for each holder, a bar for each tenure, in percent of the width.

use lineclear_lock::{LockEvent, LockEventKind};
use lineclear_model::Micros;
use maud::{Markup, html};
use serde::Deserialize;

use super::tenures::{End, Tenure, incarnation, micros, tenures};
use super::{EVENTS_MAX, HolderNames, RegistryView};
use crate::pages::View;
use crate::pages::components::{clock, moment};

/// Lanes on the page.
const LANES_MAX: usize = 40;
/// Bars below each other in one lane.
const DEPTH_MAX: usize = 4;
const BAR: usize = 18;
const PAD: usize = 6;
/// Hand-overs in the list.
const HAND_OVERS_MAX: usize = 12;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(in crate::pages) enum Range {
    #[default]
    #[serde(rename = "15m")]
    Quarter,
    #[serde(rename = "1h")]
    Hour,
    #[serde(rename = "24h")]
    Day,
}

impl Range {
    const ALL: [Range; 3] = [Range::Quarter, Range::Hour, Range::Day];

    fn word(self) -> &'static str {
        match self {
            Range::Quarter => "15m",
            Range::Hour => "1h",
            Range::Day => "24h",
        }
    }

    /// Its length, and the step by which the picture moves, in microseconds.
    const fn micros(self) -> (i64, i64) {
        match self {
            Range::Quarter => (900_000_000, 5_000_000),
            Range::Hour => (3_600_000_000, 15_000_000),
            Range::Day => (86_400_000_000, 300_000_000),
        }
    }
}

/// The visible range.
struct Window {
    from: i64,
    to: i64,
}

impl Window {
    fn of(now: Micros, range: Range) -> Window {
        let (length, step) = range.micros();
        let to = (now.get() / step + 1) * step;
        Window { from: to - length, to }
    }

    /// The position of a time, in hundredths of a percent of the width.
    fn place(&self, at: i64) -> i64 {
        (at.clamp(self.from, self.to) - self.from) * 10_000 / (self.to - self.from)
    }

    fn has(&self, tenure: &Tenure) -> bool {
        tenure.to.is_none_or(|to| to.get() >= self.from)
            && tenure.from.is_none_or(|from| from.get() <= self.to)
    }
}

fn percent(place: i64) -> String {
    format!("{}.{:02}%", place / 100, place % 100)
}

struct Bar<'a> {
    tenure: &'a Tenure,
    x: i64,
    width: i64,
    y: usize,
}

struct Lane<'a> {
    holder: String,
    label: String,
    bars: Vec<Bar<'a>>,
    left_out: usize,
    top: usize,
    height: usize,
}

/// Places the bars of one lane: overlapping ones lie below each other.
fn place_bars<'a>(lane: &mut Lane<'a>, tenures: Vec<&'a Tenure>, window: &Window) {
    let mut ends: Vec<i64> = Vec::new();
    for tenure in tenures {
        let x = tenure.from.map_or(0, |from| window.place(from.get()));
        let to = tenure.to.map_or(10_000, |to| window.place(to.get()));
        // A minimum width, so that short tenures are visible.
        let width = (to - x).max(40);
        let depth = ends.iter().position(|end| *end <= x).unwrap_or(ends.len());
        if depth >= DEPTH_MAX {
            lane.left_out += 1;
            continue;
        }
        match ends.get_mut(depth) {
            Some(end) => *end = x + width,
            None => ends.push(x + width),
        }
        lane.bars.push(Bar { tenure, x, width, y: lane.top + PAD + depth * BAR });
    }
    lane.height = ends.len().max(1) * BAR + 2 * PAD;
}

fn lanes<'a>(all: &'a [Tenure], names: &HolderNames<'_>, window: &Window) -> (Vec<Lane<'a>>, usize) {
    let mut holders: Vec<String> = names.live();
    for tenure in all.iter().filter(|tenure| window.has(tenure)) {
        if !holders.iter().any(|holder| incarnation(holder) == incarnation(&tenure.holder)) {
            holders.push(tenure.holder.clone());
        }
    }
    let left_out = holders.len().saturating_sub(LANES_MAX);
    holders.truncate(LANES_MAX);
    let mut top = 0;
    let drawn = holders.into_iter().map(|holder| {
        let label = names.of(&holder);
        let mut lane = Lane { label, bars: Vec::new(), left_out: 0, top, height: 0, holder };
        let same =
            |tenure: &&Tenure| incarnation(&tenure.holder) == incarnation(&lane.holder) && window.has(tenure);
        let mut own: Vec<&Tenure> = all.iter().filter(same).collect();
        own.sort_by_key(|tenure| tenure.from);
        place_bars(&mut lane, own, window);
        top += lane.height;
        lane
    });
    (drawn.collect(), left_out)
}

/// Pairs of consecutive tenures of the same lock.
fn hand_overs<'a>(lanes: &'a [Lane<'a>]) -> Vec<(&'a Bar<'a>, &'a Bar<'a>)> {
    let bars: Vec<&Bar<'_>> = lanes.iter().flat_map(|lane| &lane.bars).collect();
    let mut pairs = Vec::new();
    for to in &bars {
        let same = |from: &&&Bar<'_>| {
            (&from.tenure.name, &from.tenure.store) == (&to.tenure.name, &to.tenure.store)
                && from.tenure.to.is_some()
                && from.tenure.to <= to.tenure.from
                && !std::ptr::eq(from.tenure, to.tenure)
        };
        pairs.extend(bars.iter().filter(same).max_by_key(|from| from.tenure.to).map(|from| (*from, *to)));
    }
    pairs
}

pub(in crate::pages) fn section(
    view: &View<'_>,
    registry: &RegistryView,
    names: &HolderNames<'_>,
    range: Range,
    now: Micros,
) -> Markup {
    let window = Window::of(now, range);
    let all = tenures(&registry.events, &registry.leases, names.nodes);
    let (lanes, left_out) = lanes(&all, names, &window);
    let height = lanes.last().map_or(0, |lane| lane.top + lane.height);
    let quarter = (window.to - window.from) / 4;
    // Before the oldest event that was read, the history is unknown.
    let cut = (registry.events.len() >= EVENTS_MAX as usize)
        .then(|| registry.events.iter().map(|event| micros(event.at)).min())
        .flatten()
        .filter(|oldest| oldest.get() > window.from);
    html! {
        section.card {
            div.bar {
                h2 { "Lock history" }
                nav.pills aria-label="Range" {
                    @for one in Range::ALL { a.pill href=(view.link(&format!("/cluster?range={}", one.word()))) aria-current=[(one == range).then_some("true")] { (one.word()) } }
                }
                span.muted { "A bar is a tenure: no other node held the lock in between. ✕ marks a loss." }
            }
            @if let Some(oldest) = cut { p.note { "Only the newest " (EVENTS_MAX) " events are shown, back to " (moment(oldest)) "." } }
            @if left_out > 0 { p.note { (left_out) " more lanes are not shown." } }
            div.lanes {
                ol.lane-names aria-hidden="true" { @for lane in &lanes {
                    li { svg width="1" height=(lane.height) {} span { (lane.label) @if names.is_this(&lane.holder) { " " span.badge.this { "this node" } } } }
                } }
                svg.lanes-time role="img" aria-label={ "Tenures of locks in the last " (range.word()) "; the table below has them, too" } width="100%" height=(height) {
                    @for lane in &lanes { line.lane-line x1="0" x2="100%" y1=(lane.top + lane.height) y2=(lane.top + lane.height) {} }
                    @for step in 1..4 { line.lane-line x1={ (step * 25) "%" } x2={ (step * 25) "%" } y1="0" y2=(height) {} }
                    @if let Some(oldest) = cut { rect.unread x="0" y="0" width=(percent(window.place(oldest.get()))) height=(height) {} }
                    @for (from, to) in hand_overs(&lanes) {
                        line.hand-over x1=(percent((from.x + from.width).min(10_000))) y1=(from.y + BAR / 2) x2=(percent(to.x)) y2=(to.y + BAR / 2) {}
                    }
                    @for bar in lanes.iter().flat_map(|lane| &lane.bars) { (drawn(bar, names)) }
                }
                div {}
                div.axis { @for step in 0..4 { span { (hour(window.from + quarter * step)) } } span { "now" } }
            }
            (hand_over_list(&registry.events, names))
            (table(&all, names, &window))
        }
    }
}

fn hour(at: i64) -> String {
    Micros::new(at).and_then(|at| clock(at).get(11..16).map(str::to_owned)).unwrap_or_default()
}

fn drawn(bar: &Bar<'_>, names: &HolderNames<'_>) -> Markup {
    let tenure = bar.tenure;
    let class = match tenure.end {
        End::Open => "f-running",
        _ => "f-cancelled",
    };
    let epoch = tenure.epoch.map(|epoch| format!(" e{epoch}")).unwrap_or_default();
    let until = tenure.to.map_or("now".to_owned(), clock);
    let from = tenure.from.map_or("before".to_owned(), clock);
    html! {
        svg x=(percent(bar.x)) y=(bar.y) width=(percent(bar.width)) height=(BAR) {
            title { (tenure.name) (epoch) ": " (names.of(&tenure.holder)) ", " (from) " to " (until) ", " (tenure.end.label()) }
            rect class=(class) x="0" y="1" width="100%" height=(BAR - 3) rx="3" {}
            text.bar-name x="4" y="13" { (tenure.name) (epoch) }
        }
        @if tenure.end.is_loss() { text.loss x=(percent((bar.x + bar.width).min(9_950))) y=(bar.y + 14) text-anchor="middle" { "✕" } }
    }
}

/// The list of hand-overs, newest first.
fn hand_over_list(events: &[LockEvent], names: &HolderNames<'_>) -> Markup {
    let shown: Vec<&LockEvent> = events
        .iter()
        .filter(|event| event.what != LockEventKind::Taken || event.before.is_some())
        .take(HAND_OVERS_MAX)
        .collect();
    html! {
        h3 { "Hand-overs" }
        @if shown.is_empty() { p.muted { "No hand-overs." } }
        ol.plain.hand-overs { @for event in shown {
            li data-key={ "e" (event.id) } {
                span.grow {
                    strong { (event.name) } ": "
                    @match (event.what, &event.before) {
                        (LockEventKind::Taken, Some(before)) => { (names.of(before)) " → " (names.of(&event.holder)) },
                        (LockEventKind::Broken, _) => { "broken, was held by " (names.of(&event.holder)) @if let Some(by) = &event.by_whom { " by " (by) } },
                        (LockEventKind::Lost, _) => { (names.of(&event.holder)) " lost it" },
                        _ => { (names.of(&event.holder)) " disappeared while holding it" },
                    }
                    ", epoch " (event.epoch) ", " (moment(micros(event.at)))
                    @if let Some(why) = &event.why { span.muted { " · " (why) } }
                }
            }
        } }
    }
}

fn table(all: &[Tenure], names: &HolderNames<'_>, window: &Window) -> Markup {
    html! {
        details data-key="tenures" {
            summary { "As a table" }
            div.scroll { table.list {
                thead { tr { th scope="col" { "Lock" } th scope="col" { "Holder" } th scope="col" { "Epoch" } th scope="col" { "From" } th scope="col" { "To" } th scope="col" { "End" } } }
                tbody { @for tenure in all.iter().filter(|tenure| window.has(tenure)) { tr {
                    td { (tenure.name) }
                    td { (names.of(&tenure.holder)) }
                    td { @if let Some(epoch) = tenure.epoch { (epoch) } @else { "?" } }
                    td { @if let Some(from) = tenure.from { (moment(from)) } @else { "before" } }
                    td { @if let Some(to) = tenure.to { (moment(to)) } @else { "now" } }
                    td { (tenure.end.label()) }
                } } }
            } }
        }
    }
}

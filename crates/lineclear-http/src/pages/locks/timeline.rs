//! Lanes: time from left to right, a lane for each node, a bar for each tenure of a lock. Drawn by the server, in percent of the width.

use lineclear_lock::{LockEvent, What};
use lineclear_model::Micros;
use maud::{Markup, html};
use serde::Deserialize;

use super::tenures::{End, Tenure, incarnation, micros, tenures};
use super::{EVENTS_MAX, Known, Names};
use crate::pages::View;
use crate::pages::part::{clock, moment};

/// Lanes that are drawn at most.
const LANES_MAX: usize = 40;
/// Bars that one lane has beside each other at most.
const DEPTH_MAX: usize = 4;
const BAR: usize = 18;
const PAD: usize = 6;
/// Sentences at most.
const SAID_MAX: usize = 12;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum Range {
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

    /// Its length, and how far the picture moves at once: bars must not shimmer.
    const fn micros(self) -> (i64, i64) {
        match self {
            Range::Quarter => (900_000_000, 5_000_000),
            Range::Hour => (3_600_000_000, 15_000_000),
            Range::Day => (86_400_000_000, 300_000_000),
        }
    }
}

/// What is between two moments, drawn.
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

    /// Where a moment is, in hundredths of a percent of the width.
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

/// Bars of one lane: those that overlap lie below each other.
fn lay<'a>(lane: &mut Lane<'a>, tenures: Vec<&'a Tenure>, window: &Window) {
    let mut ends: Vec<i64> = Vec::new();
    for tenure in tenures {
        let x = tenure.from.map_or(0, |from| window.place(from.get()));
        let to = tenure.to.map_or(10_000, |to| window.place(to.get()));
        // What is short is still seen.
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

fn lanes<'a>(all: &'a [Tenure], names: &Names<'_>, window: &Window) -> (Vec<Lane<'a>>, usize) {
    let mut holders: Vec<String> = names.living();
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
        lay(&mut lane, own, window);
        top += lane.height;
        lane
    });
    (drawn.collect(), left_out)
}

/// From the end of one tenure to the beginning of the next of the same lock.
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

pub(super) fn section(
    view: &View<'_>,
    known: &Known,
    names: &Names<'_>,
    range: Range,
    now: Micros,
) -> Markup {
    let window = Window::of(now, range);
    let all = tenures(&known.events, &known.leases, names.nodes);
    let (lanes, left_out) = lanes(&all, names, &window);
    let height = lanes.last().map_or(0, |lane| lane.top + lane.height);
    let quarter = (window.to - window.from) / 4;
    // What is older than the oldest event that was read is not known.
    let cut = (known.events.len() >= EVENTS_MAX as usize)
        .then(|| known.events.iter().map(|event| micros(event.at)).min())
        .flatten()
        .filter(|oldest| oldest.get() > window.from);
    html! {
        section.card {
            div.bar {
                h2 { "Who held what" }
                nav.pills aria-label="Range" {
                    @for one in Range::ALL { a.pill href=(view.link(&format!("/cluster?range={}", one.word()))) aria-current=[(one == range).then_some("true")] { (one.word()) } }
                }
                span.muted { "A bar is a tenure: no other node had the lock in between. ✕ is a loss." }
            }
            @if let Some(oldest) = cut { p.note { "Only the newest " (EVENTS_MAX) " events are drawn: what was before " (moment(oldest)) " is left out." } }
            @if left_out > 0 { p.note { (left_out) " more lanes are left out." } }
            div.lanes {
                ol.lane-names aria-hidden="true" { @for lane in &lanes {
                    li { svg width="1" height=(lane.height) {} span { (lane.label) @if names.is_this(&lane.holder) { " " span.badge.this { "this node" } } } }
                } }
                svg.lanes-time role="img" aria-label={ "Tenures of locks in the last " (range.word()) "; they are in the table below, too" } width="100%" height=(height) {
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
            (sentences(&known.events, names))
            (table(&all, names, &window))
        }
    }
}

fn hour(at: i64) -> String {
    Micros::new(at).and_then(|at| clock(at).get(11..16).map(str::to_owned)).unwrap_or_default()
}

fn drawn(bar: &Bar<'_>, names: &Names<'_>) -> Markup {
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
            title { (tenure.name) (epoch) ": " (names.of(&tenure.holder)) ", " (from) " to " (until) ", " (tenure.end.says()) }
            rect class=(class) x="0" y="1" width="100%" height=(BAR - 3) rx="3" {}
            text.bar-name x="4" y="13" { (tenure.name) (epoch) }
        }
        @if tenure.end.is_loss() { text.loss x=(percent((bar.x + bar.width).min(9_950))) y=(bar.y + 14) text-anchor="middle" { "✕" } }
    }
}

/// What happened, newest first, in words.
fn sentences(events: &[LockEvent], names: &Names<'_>) -> Markup {
    let told: Vec<&LockEvent> = events
        .iter()
        .filter(|event| event.what != What::Taken || event.before.is_some())
        .take(SAID_MAX)
        .collect();
    html! {
        h3 { "Hand-overs" }
        @if told.is_empty() { p.muted { "None that is remembered: a lock that goes from one node to another is told here." } }
        ol.plain.hand-overs { @for event in told {
            li data-key={ "e" (event.id) } {
                span.grow {
                    strong { (event.name) } ": "
                    @match (event.what, &event.before) {
                        (What::Taken, Some(before)) => { (names.of(before)) " → " (names.of(&event.holder)) },
                        (What::Broken, _) => { "taken away from " (names.of(&event.holder)) @if let Some(by) = &event.by_whom { " by " (by) } },
                        (What::Lost, _) => { (names.of(&event.holder)) " lost it" },
                        _ => { (names.of(&event.holder)) " vanished with it" },
                    }
                    ", epoch " (event.epoch) ", " (moment(micros(event.at)))
                    @if let Some(why) = &event.why { span.muted { " · " (why) } }
                }
            }
        } }
    }
}

fn table(all: &[Tenure], names: &Names<'_>, window: &Window) -> Markup {
    html! {
        details data-key="tenures" {
            summary { "As a table" }
            div.scroll { table.list {
                thead { tr { th scope="col" { "Lock" } th scope="col" { "Holder" } th scope="col" { "Epoch" } th scope="col" { "From" } th scope="col" { "To" } th scope="col" { "How it ended" } } }
                tbody { @for tenure in all.iter().filter(|tenure| window.has(tenure)) { tr {
                    td { (tenure.name) }
                    td { (names.of(&tenure.holder)) }
                    td { @if let Some(epoch) = tenure.epoch { (epoch) } @else { "?" } }
                    td { @if let Some(from) = tenure.from { (moment(from)) } @else { "before" } }
                    td { @if let Some(to) = tenure.to { (moment(to)) } @else { "now" } }
                    td { (tenure.end.says()) }
                } } }
            } }
        }
    }
}

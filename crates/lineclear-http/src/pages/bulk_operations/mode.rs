//! How the jobs of a bulk operation follow each other: as it is asked, and as it is shown.

use lineclear::store::{Action, Batch, BatchStatus, Mode};
use lineclear_model::{JobState, duration};
use maud::{Markup, html};

use super::View;
use super::part::{self, length};
use crate::problem::Problem;

/// What stands in the field if nothing is said.
const OVER: &str = "10m";

/// Whether an action can be done in another way than at once.
pub(super) const fn has_choice(action: Action) -> bool {
    matches!(action, Action::Retry | Action::Revive)
}

/// The word of a mode that an address asks for; `all` if none is.
pub(super) fn asked(word: &str, action: Action) -> Result<&'static str, Problem> {
    let word = if word.is_empty() { "all" } else { word };
    let known = Mode::WORDS.iter().copied().find(|known| *known == word);
    match known {
        Some("all") => Ok("all"),
        Some(known) if has_choice(action) => Ok(known),
        _ => Err(Problem::malformed("mode", "choose all; to retry or revive also spread or canary")),
    }
}

/// The choice in the form that asks.
pub(super) fn choice(chosen: &str) -> Markup {
    let radio = |word: &str| {
        html! { input type="radio" name="mode" value=(word) checked[word == chosen]; }
    };
    html! {
        fieldset.modes {
            legend { "When" }
            label { (radio("all")) " now, all of them" }
            div.bar {
                label { (radio("spread")) " spread over" }
                input name="over" value=(OVER) size="6" maxlength="20" aria-label="Spread over how long";
            }
            label { (radio("canary")) " one first, the rest if it completes" }
        }
    }
}

/// The same on the command line.
pub(super) fn option(word: &str) -> String {
    match word {
        "spread" => format!(" --over {OVER}"),
        "canary" => " --canary".to_owned(),
        _ => String::new(),
    }
}

/// What was chosen, as the API takes it. The length stands in the form whatever was chosen.
pub(super) fn chosen(mode: &str, over: &str) -> Result<(Option<String>, Option<u64>), Problem> {
    let over_ms = match mode {
        "spread" => {
            let over = duration::parse(over.trim())
                .map_err(|bad| Problem::malformed("over", format!("{over:?}: {bad}; say 10m, or 2h")))?;
            Some(u64::try_from(over.as_millis()).unwrap_or(u64::MAX))
        }
        _ => None,
    };
    Ok((Some(mode.to_owned()).filter(|mode| !mode.is_empty()), over_ms))
}

/// What is to be said about it where a bulk operation is shown.
pub(super) fn shown(view: &View<'_>, batch: &Batch, canary: Option<JobState>) -> Markup {
    html! {
        @if let Some(over) = batch.mode.over() {
            p { "The jobs become due one after the other, over " (length(u64::try_from(over.as_millis()).unwrap_or(u64::MAX))) "." }
        }
        @if batch.mode == Mode::Canary {
            @match batch.canary {
                Some(job) => p {
                    "One goes first: " a href=(view.link(&format!("/jobs/{job}"))) { "job " (job) }
                    @if let Some(state) = canary { " " (part::state(state)) }
                    @if batch.waits_for_canary { ". The rest waits until it completes." }
                },
                None => @if matches!(batch.status, BatchStatus::Waiting | BatchStatus::Running) { p { "One goes first; the rest follows if it completes." } },
            }
        }
        @if let Some(because) = &batch.stopped_because { p.wrong role="status" { "It stopped: " (because) ". Nothing else was touched." } }
    }
}

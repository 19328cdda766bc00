//! The mode of a bulk operation: all at once, spread, or with a canary.

use lineclear::store::{BulkAction, BulkMode, BulkOperation, BulkStatus};
use lineclear_model::{JobState, duration};
use maud::{Markup, html};

use crate::pages::View;
use crate::pages::components::{self, duration as duration_text};
use crate::problem::Problem;

/// The default period.
const OVER: &str = "10m";

/// Whether an action has modes.
pub(super) const fn has_choice(action: BulkAction) -> bool {
    matches!(action, BulkAction::Retry | BulkAction::Revive)
}

/// The mode in the query; the default is `all`.
pub(super) fn chosen_word(word: &str, action: BulkAction) -> Result<&'static str, Problem> {
    let word = if word.is_empty() { "all" } else { word };
    let known = BulkMode::WORDS.iter().copied().find(|known| *known == word);
    match known {
        Some("all") => Ok("all"),
        Some(known) if has_choice(action) => Ok(known),
        _ => Err(Problem::malformed("mode", "`mode` must be all, or spread or canary to retry or revive")),
    }
}

/// The fields of the form.
pub(super) fn choice(chosen: &str) -> Markup {
    let radio = |word: &str| {
        html! { input type="radio" name="mode" value=(word) checked[word == chosen]; }
    };
    html! {
        fieldset.modes {
            legend { "When" }
            label { (radio("all")) " all now" }
            div.bar {
                label { (radio("spread")) " spread over" }
                input name="over" value=(OVER) size="6" maxlength="20" aria-label="Spread over how long";
            }
            label { (radio("canary")) " one job first, the others when it has completed" }
        }
    }
}

/// The option of the CLI.
pub(super) fn option(word: &str) -> String {
    match word {
        "spread" => format!(" --over {OVER}"),
        "canary" => " --canary".to_owned(),
        _ => String::new(),
    }
}

/// The mode of the form, for the API. The period is ignored unless the mode is `spread`.
pub(super) fn parse(mode: &str, over: &str) -> Result<(Option<String>, Option<u64>), Problem> {
    let over_ms = match mode {
        "spread" => {
            let over = duration::parse(over.trim())
                .map_err(|bad| Problem::malformed("over", format!("{over:?}: {bad}; write 10m or 2h")))?;
            Some(u64::try_from(over.as_millis()).unwrap_or(u64::MAX))
        }
        _ => None,
    };
    Ok((Some(mode.to_owned()).filter(|mode| !mode.is_empty()), over_ms))
}

/// The mode of a bulk operation on its page.
pub(super) fn card(view: &View<'_>, operation: &BulkOperation, canary: Option<JobState>) -> Markup {
    html! {
        @if let Some(over) = operation.mode.over() {
            p { "The jobs become due one after the other, over " (duration_text(u64::try_from(over.as_millis()).unwrap_or(u64::MAX))) "." }
        }
        @if operation.mode == BulkMode::Canary {
            @match operation.canary {
                Some(job) => p {
                    "One job runs first: " a href=(view.link(&format!("/jobs/{job}"))) { "job " (job) }
                    @if let Some(state) = canary { " " (components::state(state)) }
                    @if operation.waits_for_canary { ". The others wait until it has completed." }
                },
                None => @if matches!(operation.status, BulkStatus::Waiting | BulkStatus::Running) { p { "One job runs first; the others follow when it has completed." } },
            }
        }
        @if let Some(because) = &operation.stopped_because { p.wrong role="status" { "It stopped: " (because) ". No other job was changed." } }
    }
}

//! Charts as SVG. A page shows the numbers of its charts in a table, too.

use maud::{Markup, html};

use super::number;

/// The width of a bar with its gap.
const STEP: usize = 10;
const HEIGHT: u64 = 72;

/// One bar.
pub(in crate::pages) struct Bar {
    /// The label of its start.
    pub(in crate::pages) at: String,
    /// Stacked from below: the value and the CSS class.
    pub(in crate::pages) parts: Vec<(u64, &'static str)>,
    /// The description.
    pub(in crate::pages) description: String,
    /// The link.
    pub(in crate::pages) link: String,
}

/// Bars over time, from zero.
pub(in crate::pages) fn bars(label: &str, bars: &[Bar], unit: &str) -> Markup {
    let most =
        bars.iter().map(|bar| bar.parts.iter().map(|(much, _)| much).sum::<u64>()).max().unwrap_or(0).max(1);
    let width = bars.len() * STEP;
    html! {
        svg.chart role="img" aria-label=(label) viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" {
            @for (place, bar) in bars.iter().enumerate() {
                a href=(bar.link) tabindex="-1" {
                    rect.hit x=(place * STEP) y="0" width=(STEP) height=(HEIGHT) { title { (bar.at) ": " (bar.description) ". Click for the jobs accepted then." } }
                    @for (y, height, class) in stacked(&bar.parts, most) {
                        rect class=(class) x=(place * STEP + 1) y=(y) width=(STEP - 2) height=(height) {}
                    }
                }
            }
        }
        div.axis { span { (bars.first().map_or("", |bar| bar.at.as_str())) } span { "max " (number(most)) " " (unit) } span { "now" } }
    }
}

/// The position and height of each part; a value above zero is always visible.
fn stacked(parts: &[(u64, &'static str)], most: u64) -> Vec<(u64, u64, &'static str)> {
    let mut top = HEIGHT;
    let mut drawn = Vec::new();
    for &(much, class) in parts.iter().filter(|(much, _)| *much > 0) {
        let height = (much * HEIGHT / most).max(2).min(top);
        top -= height;
        drawn.push((top, height, class));
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_stay_visible() {
        assert_eq!(stacked(&[(1, "a"), (999, "b")], 1_000), [(70, 2, "a"), (0, 70, "b")]);
        assert_eq!(stacked(&[(0, "a")], 1), []);
    }
}

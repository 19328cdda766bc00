//! The plot: bars of drain and end to end, with the least and the most of all rounds as a line.

use std::fmt::Write as _;

use lineclear_measure::{median, quantile};

use crate::lines::Line;
use crate::plan::Measure;
use crate::report::values;
use crate::subjects::{SUBJECTS, Subject};
use crate::table::number;

/// Pixels.
const WIDTH: f64 = 820.0;
const LEFT: f64 = 150.0;
const BARS: f64 = 560.0;
const BAR: f64 = 16.0;
const ROW: f64 = 52.0;
const TOP: f64 = 56.0;

/// Colours that can be told apart on white and on black, also by those who do not see red and green.
const COLOURS: [(&str, Measure, &str); 2] =
    [("drain", Measure::Drain, "#2a78b8"), ("end to end", Measure::EndToEnd, "#e08a1e")];

/// Jobs per second with the best settings.
pub(crate) fn svg(lines: &[Line]) -> String {
    let rates = |subject: &Subject, measure| values(lines, subject, measure, true, |line| Some(line.rate));
    let shown: Vec<&Subject> =
        SUBJECTS.iter().filter(|subject| !rates(subject, Measure::Drain).is_empty()).collect();
    let all = shown.iter().flat_map(|subject| COLOURS.map(|(_, measure, _)| rates(subject, measure)));
    let most = all.flatten().fold(1.0, f64::max);
    let across = |rate: f64| LEFT + rate / most * BARS;
    let height = TOP + ROW * shown.len() as f64;

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>Jobs per second with the best settings</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"10\" y=\"22\" font-weight=\"bold\">Jobs per second, best settings: median, least and most</text>\n"
    );
    // Writing into a string cannot fail.
    for (at, (name, _, colour)) in COLOURS.iter().enumerate() {
        let x = LEFT + 120.0 * at as f64;
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"32\" width=\"12\" height=\"12\" fill=\"{colour}\"/>");
        let _ = writeln!(svg, "<text x=\"{}\" y=\"43\">{name}</text>", x + 18.0);
    }
    for (row, subject) in shown.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        let _ = writeln!(svg, "<text x=\"10\" y=\"{}\">{}</text>", y + BAR + 5.0, subject.name);
        for (at, (_, measure, colour)) in COLOURS.iter().enumerate() {
            let rates = rates(subject, *measure);
            let (middle, y) = (median(&rates), y + (BAR + 3.0) * at as f64);
            let [least, most] = [0.0, 1.0].map(|share| across(quantile(&rates, share)));
            let (width, centre, base) = (across(middle) - LEFT, y + BAR / 2.0, y + BAR - 3.0);
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\n\
                 <path d=\"M{least:.1} {centre}H{most:.1}\" stroke=\"#222\" stroke-width=\"1.5\"/>\n\
                 <text x=\"{:.1}\" y=\"{base}\">{}</text>",
                most.max(across(middle)) + 8.0,
                number(middle),
            );
        }
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::line;

    #[test]
    fn the_longest_bar_fills_the_plot() {
        let mut lines = Vec::new();
        for (name, rate) in [("lineclear", 2_000.0), ("pg-boss", 500.0)] {
            lines.push(line(Measure::Drain, name, true, rate));
            lines.push(line(Measure::EndToEnd, name, true, rate / 2.0));
        }
        let svg = svg(&lines);
        for width in ["560.0", "280.0", "140.0", "70.0"] {
            assert!(svg.contains(&format!("width=\"{width}\"")), "{width}: {svg}");
        }
        assert!(!svg.contains("graphile"), "what was not measured is not shown");
        assert!(svg.contains(">2,000<"));
    }
}

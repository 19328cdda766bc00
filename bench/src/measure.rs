//! Timing, and how numbers are printed.

use std::cell::Cell;
use std::time::{Duration, Instant};

use anyhow::Result;
use lineclear_measure::{interleave, median, quantile};

/// Times `verb` on both sides alternately, `repetitions` times each, and returns the medians. `prepare` is not timed. The first round
/// only warms up.
pub(crate) async fn compare<T>(
    sides: [&T; 2],
    repetitions: u32,
    prepare: impl AsyncFn(&T, u32) -> Result<()>,
    verb: impl AsyncFn(&T) -> Result<()>,
) -> Result<[Duration; 2]> {
    let rounds = [Cell::new(0), Cell::new(0)];
    let measured = interleave(2, repetitions + 1, async |side| {
        prepare(sides[side], rounds[side].replace(rounds[side].get() + 1)).await?;
        let start = Instant::now();
        verb(sides[side]).await?;
        Ok(start.elapsed().as_secs_f64())
    })
    .await?;
    Ok([0, 1].map(|side| Duration::from_secs_f64(median(&measured[side][1..]))))
}

/// The smallest and the largest ratio of a round.
pub(crate) fn spread(base: &[f64], value: &[f64]) -> String {
    let ratios: Vec<f64> = base.iter().zip(value).map(|(base, value)| value / base).collect();
    format!("{:.2} to {:.2} in {} rounds", quantile(&ratios, 0.0), quantile(&ratios, 1.0), ratios.len())
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Prints progress to standard error; standard output is for the figures.
pub(crate) fn progress(what: &str) {
    eprintln!("… {what}");
}

/// A number with thousands separators: 1,000,000.
pub fn grouped(number: impl Into<u64>) -> String {
    let digits = number.into().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_can_be_read() {
        assert_eq!([0_u32, 999, 1_000, 1_000_000].map(grouped), ["0", "999", "1,000", "1,000,000"]);
    }
}

//! Medians, taken in turns.

use std::time::{Duration, Instant};

use anyhow::Result;

/// As `lineclear bench` does it.
#[path = "../../crates/lineclear-cli/src/cmd/bench/turns.rs"]
mod turns;

pub(crate) use turns::quantile;

/// Measures several sides, `rounds` times each, in turns.
pub(crate) async fn in_turns(
    sides: usize,
    rounds: u32,
    measure: impl AsyncFn(usize) -> Result<f64>,
) -> Result<Vec<Vec<f64>>> {
    turns::in_turns(sides, rounds, measure).await
}

/// Times `verb` on both sides, `repetitions` times each, and returns the medians. The sides take turns, also at
/// going first. `prepare` is not timed. The first round only warms up.
pub(crate) async fn compare<T>(
    sides: [&T; 2],
    repetitions: u32,
    prepare: impl AsyncFn(&T, u32) -> Result<()>,
    verb: impl AsyncFn(&T) -> Result<()>,
) -> Result<[Duration; 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..=repetitions {
        for turn in 0..2 {
            let side = (turn + round as usize) % 2;
            prepare(sides[side], round).await?;
            let start = Instant::now();
            verb(sides[side]).await?;
            if round > 0 {
                times[side].push(start.elapsed());
            }
        }
    }
    Ok(times.map(median))
}

pub(crate) fn middle(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The ratios of the rounds, from the least to the greatest.
pub(crate) fn spread(base: &[f64], value: &[f64]) -> String {
    let ratios: Vec<f64> = base.iter().zip(value).map(|(base, value)| value / base).collect();
    format!("{:.2} to {:.2} in {} rounds", quantile(&ratios, 0.0), quantile(&ratios, 1.0), ratios.len())
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Says what takes so long. Not on standard output, which is for the figures.
pub(crate) fn progress(what: &str) {
    eprintln!("… {what}");
}

/// A number as people write it: 1,000,000.
pub(crate) fn grouped(number: u32) -> String {
    let digits = number.to_string();
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
    fn a_median_is_not_moved_by_one_slow_run() {
        let millis =
            |all: &[u64]| median(all.iter().copied().map(Duration::from_millis).collect()).as_millis();
        assert_eq!(millis(&[5, 900, 4, 6, 5]), 5);
        assert_eq!(millis(&[]), 0);
    }

    #[test]
    fn long_numbers_can_be_read() {
        assert_eq!([0, 999, 1_000, 1_000_000].map(grouped), ["0", "999", "1,000", "1,000,000"]);
    }
}

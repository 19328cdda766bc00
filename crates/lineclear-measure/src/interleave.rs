//! Alternating measurements, and their quantiles.

use anyhow::Result;

/// Measures several sides `rounds` times each, alternately; each round begins with another side. Returns the values by side.
pub async fn interleave(
    sides: usize,
    rounds: u32,
    measure: impl AsyncFn(usize) -> Result<f64>,
) -> Result<Vec<Vec<f64>>> {
    let mut measured = vec![Vec::new(); sides];
    for round in 0..rounds as usize {
        for turn in 0..sides {
            let side = (turn + round) % sides;
            measured[side].push(measure(side).await?);
        }
    }
    Ok(measured)
}

/// The value below which this share of all values lies; 0 if there are none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    // An index: rounding is intended.
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

/// The middle value; 0 if there are none.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|share| quantile(&values, share)), [1.0, 3.0, 5.0, 5.0]);
        assert_eq!(quantile(&[], 0.5), 0.0);
        assert_eq!(median(&[5.0, 900.0, 4.0, 6.0, 5.0]), 5.0, "one slow run does not move it");
    }

    #[tokio::test]
    async fn every_side_goes_first_once() {
        let order = std::cell::RefCell::new(Vec::new());
        let measured = interleave(2, 2, async |side| {
            order.borrow_mut().push(side);
            Ok(side as f64)
        });
        assert_eq!(measured.await.unwrap(), [vec![0.0, 0.0], vec![1.0, 1.0]]);
        assert_eq!(order.into_inner(), [0, 1, 1, 0]);
    }
}

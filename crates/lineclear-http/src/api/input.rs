//! Inputs as they come in.

use lineclear_model::{Payload, secret};
use serde_json::value::RawValue;

use super::shape::unprocessable;
use crate::problem::Problem;

/// An input. Dots that stand in place of a secret are refused: somebody sends back what was shown to them.
pub(super) fn input(raw: &RawValue, pointer: &str) -> Result<Payload, Problem> {
    let input =
        Payload::parse(raw.get()).map_err(|bad| unprocessable("input", bad.to_string()).at(pointer))?;
    match secret::find_mask(input.as_str()) {
        None => Ok(input),
        Some(place) => {
            let detail = format!("{} is shown in place of a secret; send the secret itself", secret::MASK);
            Err(unprocessable("masked", detail).at(format!("{pointer}{place}")))
        }
    }
}

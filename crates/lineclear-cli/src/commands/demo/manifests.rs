//! The standing orders of the demo.

use lineclear_model::{Manifest, ManifestFile};

use crate::failure::Failure;

const ORDERS: &str = r#"
# Beats every two seconds, and never fails.
[[manifest]]
key = "heartbeat"
kind = "heartbeat"
schedule = { every = "2s" }

# Fails at its first try, and is tried again.
[[manifest]]
key = "flaky-import"
kind = "flaky-import"
schedule = { every = "8s" }
retries = 2
retry = { delay = "2s" }

# Takes its time: who is killed with it in hand loses it to another.
[[manifest]]
key = "slow-report"
kind = "slow-report"
schedule = { every = "6s" }

# A chain: each waits for the one before.
[[manifest]]
key = "extract"
kind = "extract"
schedule = { every = "15s" }

[[manifest]]
key = "transform"
kind = "transform"
schedule = { after = ["extract"] }

[[manifest]]
key = "load"
kind = "load"
schedule = { after = ["transform"] }

# Rests on weekends.
[[manifest]]
key = "office-hours"
kind = "office-hours"
schedule = { every = "10s" }
exclude = [{ weekdays = ["sat", "sun"] }]
"#;

pub(super) fn all() -> Result<Vec<Manifest>, Failure> {
    let file = ManifestFile::from_toml(ORDERS).map_err(|bad| Failure::failed(bad.to_string()))?;
    Ok(file.manifest)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_orders_can_be_read() {
        assert_eq!(super::all().unwrap().len(), 7);
    }
}

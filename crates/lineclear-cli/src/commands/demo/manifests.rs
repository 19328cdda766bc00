//! The manifests of the demo.

use lineclear_model::{Manifest, ManifestFile};

use crate::failure::Failure;

const MANIFESTS: &str = r#"
# Every two seconds; never fails.
[[manifest]]
key = "heartbeat"
kind = "heartbeat"
schedule = { every = "2s" }

# Fails at its first attempt, and is retried.
[[manifest]]
key = "flaky-import"
kind = "flaky-import"
schedule = { every = "8s" }
retries = 2
retry = { delay = "2s" }

# Slow: when its node is killed, another node takes it over.
[[manifest]]
key = "slow-report"
kind = "slow-report"
schedule = { every = "6s" }

# A chain: each runs after the one before.
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

# Not on weekends.
[[manifest]]
key = "office-hours"
kind = "office-hours"
schedule = { every = "10s" }
exclude = [{ weekdays = ["sat", "sun"] }]
"#;

pub(super) fn all() -> Result<Vec<Manifest>, Failure> {
    let file = ManifestFile::from_toml(MANIFESTS).map_err(|bad| Failure::failed(bad.to_string()))?;
    Ok(file.manifest)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_manifests_are_valid() {
        assert_eq!(super::all().unwrap().len(), 7);
    }
}

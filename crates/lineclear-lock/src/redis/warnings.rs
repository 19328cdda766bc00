//! Warnings about a Redis that may lose locks.

use std::collections::HashMap;
use std::fmt;

use crate::error::LockError;

/// A reason why this Redis may lose a lock that is held. It is logged as a warning when the locks are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// When its memory is full, it may evict locks.
    MayEvict {
        /// Its `maxmemory-policy`.
        policy: String,
    },
    /// A failover to a replica may lose locks that the replica does not have yet.
    ReplicasNotWaitedFor {
        /// How many replicas it has.
        replicas: u64,
    },
    /// It has no append-only file: a restart may forget locks.
    MayForget,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::MayEvict { policy } => {
                write!(f, "maxmemory-policy is {policy}: Redis may evict held locks; use noeviction")
            }
            Warning::ReplicasNotWaitedFor { replicas } => write!(
                f,
                "it has {replicas} replicas, and locks are granted before the replicas have them: a failover may grant a lock twice; set `replicas` in the URL"
            ),
            Warning::MayForget => f.write_str("it has no append-only file: a restart may forget held locks"),
        }
    }
}

/// Reads the answer to `INFO`. Refuses a server that cannot have locks.
pub(super) fn read(info: &str, waits: bool) -> Result<Vec<Warning>, LockError> {
    let facts: HashMap<&str, &str> =
        info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
    let fact = |name: &str| facts.get(name).copied().unwrap_or_default();
    let number = |name: &str| fact(name).parse::<u64>().unwrap_or(0);
    if fact("cluster_enabled") == "1" {
        return Err(LockError::refused("redis_cluster", "locks in Redis Cluster are not supported"));
    }
    if fact("role") == "slave" {
        return Err(LockError::refused("redis_role", "this Redis is a replica; locks need the primary"));
    }
    let mut warnings = Vec::new();
    let policy = fact("maxmemory_policy");
    if number("maxmemory") > 0 && policy != "noeviction" {
        warnings.push(Warning::MayEvict { policy: policy.to_owned() });
    }
    let replicas = number("connected_slaves");
    if replicas > 0 && !waits {
        warnings.push(Warning::ReplicasNotWaitedFor { replicas });
    }
    if fact("aof_enabled") == "0" {
        warnings.push(Warning::MayForget);
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redis_that_may_lose_locks_is_warned_about() {
        let safe =
            "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\nrole:master\r\naof_enabled:1\r\n";
        assert_eq!(read(safe, false).unwrap(), []);
        let full =
            "maxmemory:1000\r\nmaxmemory_policy:volatile-ttl\r\nconnected_slaves:2\r\naof_enabled:0\r\n";
        let evicts = Warning::MayEvict { policy: "volatile-ttl".to_owned() };
        let replicas = Warning::ReplicasNotWaitedFor { replicas: 2 };
        assert_eq!(read(full, false).unwrap(), [evicts.clone(), replicas, Warning::MayForget]);
        assert_eq!(read(full, true).unwrap(), [evicts, Warning::MayForget]);
    }

    #[test]
    fn a_replica_and_a_cluster_are_refused() {
        for (info, rule) in [("role:slave\r\n", "redis_role"), ("cluster_enabled:1\r\n", "redis_cluster")] {
            let error = read(info, true).unwrap_err().to_string();
            assert!(error.starts_with(&format!("refused by {rule}: ")), "{error}");
        }
    }
}

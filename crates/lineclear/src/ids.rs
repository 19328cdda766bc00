//! Ids, each of its own type: a job is not a node.

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident,)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub i64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )+ };
}

ids! {
    /// A job, from acceptance to its end.
    JobId,
    /// A manifest's row.
    ManifestId,
    /// A running process of ours.
    NodeId,
    /// A dead letter.
    DeadLetterId,
    /// A token.
    TokenId,
    /// A row of the audit.
    AuditId,
}

/// A claim: the job and the number that fences every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimRef {
    /// The job.
    pub job: JobId,
    /// The claim's number.
    pub no: u32,
}

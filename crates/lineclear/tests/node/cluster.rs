//! Nodes as processes: many of them, killed, frozen, drained, behind a pooler.

mod crash_points;
mod crowd;
mod drain;
mod leadership;
mod limits;
mod pooler;
mod prefetch;
mod reclaim;
mod roles;
mod wakeups;

//! What `lineclear bench` and `make bench` have in common: workloads, and statistics that withstand a busy machine.
//!
//! A figure is a ratio of two medians. The sides are measured alternately ([`interleave`]), so that other load slows both alike.
#![forbid(unsafe_code)]

mod interleave;
mod workload;

pub use interleave::{interleave, median, quantile};
pub use workload::{
    EnqueueLoad, INPUT, RunCounter, Stalled, StartTimes, bench_node, drain_by_store_calls, enqueue, rate,
    start_counting_node, start_timing_node,
};

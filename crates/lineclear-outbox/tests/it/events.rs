//! The event log and its subscriptions, on the databases that support them.

mod append;
mod examples;
mod fence;
mod kills;
pub(crate) mod kit;
mod operate;
mod poison;
mod rebuild;
mod subscribe;
mod tap;
pub(crate) mod writers;

use crate::kit::TestStore;

/// The tests that every database with an event log must pass.
macro_rules! suite {
    ($($module:ident => $db:expr;)+) => { $(
        mod $module {
            use super::TestStore;
            suite!(@each $db,
                an_event_has_all_that_was_appended,
                what_is_rolled_back_is_not_in_the_log,
                a_stream_at_another_version_is_a_conflict,
                bad_events_are_refused_before_anything_is_written,
                writers_that_expect_a_version_take_turns,
                effects_and_checkpoint_are_committed_together,
                an_external_handler_gets_each_event_in_order,
                a_filter_names_types_and_streams,
                rare_events_are_found_and_the_others_are_not_read_again,
                a_subscription_starts_where_it_is_told,
                subscriptions_of_one_log_are_separate,
                one_of_several_nodes_handles_and_another_takes_over,
                a_node_that_lost_its_lock_commits_nothing,
                an_event_that_fails_stops_the_subscription,
                an_event_that_fails_is_parked_and_the_others_go_on,
                parked_events_are_replayed_or_discarded,
                an_event_that_is_to_wait_for_ever_is_recorded,
                a_handler_that_lacks_something_is_charged_nothing,
                a_handler_that_panics_fails,
                an_external_event_that_fails_is_poison_too,
                a_paused_subscription_does_nothing,
                a_subscription_is_reset_and_handles_events_again,
                a_checkpoint_that_was_moved_meanwhile_undoes_the_page,
                what_people_see_is_true,
                what_does_not_exist_is_refused,
                a_rebuild_takes_the_place_of_the_active_version,
                a_rebuild_that_is_cancelled_leaves_no_trace,
                a_rebuild_that_fails_does_not_disturb_the_active_version,
                a_swap_waits_for_a_request,
                only_effects_in_this_database_can_be_rebuilt,
                a_tap_shows_new_events_in_order,
                a_slow_tap_is_told_how_many_it_lost,
                writers_at_once_lose_nothing_in_a_subscription,
                a_rebuild_during_live_writes_is_whole,
                the_guide_works,
            );
        }
    )+ };
    (@each $db:expr, $($scenario:ident,)+) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $scenario() {
            let db: TestStore = $db;
            super::find::$scenario(&db).await;
        }
    )+ };
}

/// All scenarios.
mod find {
    pub(crate) use super::append::*;
    pub(crate) use super::examples::*;
    pub(crate) use super::operate::*;
    pub(crate) use super::poison::*;
    pub(crate) use super::rebuild::*;
    pub(crate) use super::subscribe::*;
    pub(crate) use super::tap::*;
    pub(crate) use super::writers::*;
}

suite! {
    sqlite => TestStore::sqlite();
    postgres => TestStore::postgres().await;
    postgres_pgbouncer => TestStore::pgbouncer().await;
}

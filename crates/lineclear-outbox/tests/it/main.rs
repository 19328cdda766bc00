//! The outbox on every database that it supports, and the event log.

mod kit;
mod conformance;
mod events;
mod kills;
mod late;
mod metrics;
mod plans;
mod partitions;
mod retention;
mod singleton;
mod slow;

/// The tests that every database must pass.
macro_rules! suite {
    ($($module:ident => $db:expr;)+) => { $(
        mod $module {
            use crate::kit::TestStore;
            suite!(@each $db,
                a_message_is_delivered_with_all_that_was_written,
                what_is_rolled_back_is_not_delivered,
                messages_of_a_key_arrive_in_order_and_others_do_not_wait,
                a_failed_message_holds_up_its_key_and_nothing_else,
                no_message_passes_one_of_its_key_that_was_set_aside,
                no_message_passes_one_of_its_key_whose_receiver_is_away,
                a_message_that_always_fails_is_dead_and_can_be_replayed_or_discarded,
                a_rejected_message_is_dead_at_once_and_its_key_goes_on,
                a_receiver_that_is_away_charges_no_message,
                a_delayed_message_waits_and_an_expired_one_is_dead,
                a_dedup_key_is_written_once,
                a_sink_that_panics_or_hangs_fails_its_message_only,
                bad_messages_are_refused_before_anything_is_written,
                delivered_messages_are_kept_or_deleted_as_the_options_say,
                a_runner_removes_only_what_its_own_outbox_keeps_no_longer,
                a_key_keeps_its_order_while_its_messages_fail_and_come,
                outboxes_of_one_database_are_separate,
                looking_creates_no_tables_and_finds_all_outboxes,
                lists_leave_out_payloads_and_sweeps_end,
                a_message_of_a_late_transaction_is_delivered,
                a_late_message_arrives_before_those_of_its_key_that_were_written_after_it,
                keys_keep_their_order_while_transactions_overlap,
                a_message_that_is_to_wait_for_ever_holds_up_no_other_one,
                a_busy_runner_removes_all_that_is_kept_no_longer,
                messages_written_in_sql_are_delivered,
                a_runner_that_stops_records_what_was_on_its_way,
                the_inbox_lets_a_delivery_through_once,
                one_of_several_runners_delivers_and_another_takes_over,
                a_runner_that_lost_its_lock_records_nothing,
            );
        }
    )+ };
    (@each $db:expr, $($scenario:ident,)+) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $scenario() {
            let db: TestStore = $db;
            crate::find::$scenario(&db).await;
        }
    )+ };
}

/// All scenarios.
mod find {
    pub(crate) use crate::conformance::*;
    pub(crate) use crate::late::*;
    pub(crate) use crate::retention::*;
    pub(crate) use crate::singleton::*;
}

suite! {
    sqlite => TestStore::sqlite();
    postgres => TestStore::postgres().await;
    postgres_pgbouncer => TestStore::pgbouncer().await;
    mysql => TestStore::mysql().await;
}

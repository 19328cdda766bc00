//! Locks on every kind of store.

mod kit;
#[macro_use]
mod suite;
mod faults;
mod registry;
mod stores;
mod many;
mod costs;

suite! {
    in_process => Place::in_process();
    sqlite_file => Place::sqlite();
    postgres_lease => Place::postgres("lock=lease").await;
    postgres_lease_pgbouncer => Place::pgbouncer().await;
    postgres_session => Place::postgres("lock=session").await;
}

#[cfg(feature = "mysql")]
suite! {
    mysql_server => Place::mysql().await;
}

#[cfg(feature = "redis")]
suite! {
    redis_server => Place::redis();
}

/// The tests that every database with a lease registry must pass.
macro_rules! registry_suite {
    ($($module:ident => $place:expr;)+) => { $(
        mod $module {
            use crate::kit::Place;
            registry_suite!(@each $place,
                a_held_lock_is_shown_with_who_holds_it_since_when_and_of_which_kind,
                a_lock_that_is_held_for_long_stays_and_is_renewed,
                taking_and_releasing_often_does_not_flicker,
                who_finds_it_busy_writes_nothing_but_is_counted_on_the_holder_s_row,
                processes_of_one_machine_and_pid_are_told_apart,
                a_change_of_hands_is_an_event_with_both_of_them,
                a_row_is_checked_against_the_store_of_the_lock,
                who_went_away_is_swept_by_the_database_s_clock_and_who_has_the_lock_is_not,
                a_lock_is_taken_away_with_a_raised_epoch_and_it_is_written_down,
                all_that_is_known_explains_a_lock,
                without_decoration_rows_are_made_by_hand,
                many_that_start_at_once_make_the_tables_once,
                runners_are_shown_on_every_node_with_state_and_error,
                a_runner_whose_node_vanished_is_stale_and_then_removed,
            );
        }
    )+ };
    (@each $place:expr, $($scenario:ident,)+) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $scenario() {
            let place: Place = $place;
            crate::registry::$scenario(&place).await;
        }
    )+ };
}

registry_suite! {
    registry_sqlite => Place::sqlite();
    registry_postgres_lease => Place::postgres("lock=lease").await;
    registry_postgres_session => Place::postgres("lock=session").await;
    registry_pgbouncer => Place::pgbouncer().await;
}

#[cfg(feature = "mysql")]
registry_suite! {
    registry_mysql => Place::mysql().await;
}

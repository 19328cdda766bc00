//! Locks on every kind of store.

mod kit;
mod suite;
mod contend;
mod election;
mod faults;
mod keeping;
mod postgres;
mod sqlite;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "redis")]
mod redis_faults;
#[cfg(feature = "redis")]
mod redis_times;

/// The tests that every store must pass. `Place` says how to open it, as another process would.
macro_rules! suite {
    ($($module:ident => $place:expr;)+) => { $(
        mod $module {
            use crate::kit::Place;
            suite!(@each $place,
                one_holds_it_and_the_next_has_a_higher_epoch,
                a_holder_that_asks_again_is_busy_too,
                names_that_differ_in_a_byte_are_different_locks,
                a_dropped_lock_is_released_in_the_background,
                asking_without_waiting_for_the_answer_leaves_no_lock_behind,
                waiting_ends_with_the_lock_or_at_its_deadline,
                who_gives_up_waiting_leaves_the_line,
                a_held_lock_is_renewed_for_longer_than_it_lasts,
                a_program_that_blocks_its_runtime_keeps_its_lock,
                a_lock_outlives_the_runtime_that_took_it_and_is_released_after_it,
                a_lock_that_is_not_renewed_ends_by_itself,
                only_the_holder_s_token_renews_and_releases,
                a_release_undoes_a_take_whose_answer_never_came,
                who_holds_it_can_be_seen,
                exclusive_work_is_done_once_at_a_time,
                a_panic_in_exclusive_work_releases_the_lock,
                many_in_one_process_take_turns,
            );
        }
    )+ };
    (@each $place:expr, $($scenario:ident,)+) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $scenario() {
            let place: Place = $place;
            crate::suite::$scenario(&place).await;
        }
    )+ };
}

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

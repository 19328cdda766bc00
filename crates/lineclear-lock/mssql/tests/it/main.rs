//! Locks of SQL Server. The server is made up (`server.rs`) on top of a mock of its protocol: what these tests prove is what we
//! say and how we take what we are told, not what a real server does. Where `LINECLEAR_TEST_MSSQL_URL` names one, `make test-mssql`
//! runs the tests that every store must pass on it, too (feature `real-server`).

mod answers;
mod connections;
mod fence;
mod kit;
mod packets;
// Locks of SQL Server cannot be taken away from their holder; what tests that is left out.
#[allow(dead_code)]
#[path = "../../../tests/it/registry.rs"]
mod registry;
mod server;
#[macro_use]
#[path = "../../../tests/it/suite.rs"]
mod suite;
mod tables;

suite! {
    made_up_server => Place::made_up().await;
    #[cfg(feature = "real-server")]
    real_server => Place::real().await;
}

macro_rules! registry_suite {
    ($($(#[$attribute:meta])* $module:ident => $place:expr;)+) => { $(
        $(#[$attribute])*
        mod $module {
            use crate::kit::Place;
            registry_suite!(@each $place,
                a_held_lock_is_shown_with_who_holds_it_since_when_and_of_which_kind,
                a_lock_that_is_held_for_long_stays_and_is_renewed,
                taking_and_releasing_often_does_not_flicker,
                who_finds_it_busy_writes_nothing_but_is_counted_on_the_holder_s_row,
                processes_of_one_machine_and_pid_are_told_apart,
                a_change_of_hands_is_an_event_with_both_of_them,
                who_went_away_is_swept_by_the_database_s_clock_and_who_has_the_lock_is_not,
                all_that_is_known_explains_a_lock,
                without_decoration_rows_are_made_by_hand,
                many_that_start_at_once_make_the_tables_once,
            );
        }
    )+ };
    (@each $place:expr, $($scenario:ident,)+) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $scenario() {
            crate::registry::$scenario(&$place).await;
        }
    )+ };
}

registry_suite! {
    registry_in_the_same_database => Place::made_up().await;
    #[cfg(feature = "real-server")]
    registry_in_a_real_database => Place::real().await;
}

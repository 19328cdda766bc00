//! The statements, by name: `sql/<folder>/<name>.postgres.sql` and its twin `<name>.sqlite.sql`.
//!
//! `{schema}` is filled in when a store is opened, and so are the snippets of `sql/snippets`, which several statements share
//! ([`crate::db::snippets`] says how a statement names them):
//!
//! - `bulk_operation`: the columns of a bulk operation
//! - `claim`: what a worker gets
//! - `dead_letter_fits`: a dead letter matches a filter; null asks nothing
//! - `dispatched_state`: the state of a job in background_job
//! - `durable`: the commit waits until it is written, even if the server's default is not to wait
//! - `ended_state`: the state of a job whose last execution is final
//! - `execution`: an execution as it is shown
//! - `executions_ended`: the executions that ended in a stretch of time
//! - `free_keys`: the unique keys of jobs that are over are free again, unless they hold for a time that is not over
//! - `global_gate`: the global limit
//! - `group_priority`: the priority of a group; null without one
//! - `groups_with_room`: those of some groups that have room, by the rank of their next gated job
//! - `hand_over`: rows of work_queue → background_job; with a node, into a lease of that node
//! - `has_room`: group `g` is enabled, and fewer jobs of it are active than its limit allows
//! - `history`: the columns of a job that its executions keep
//! - `hold_manifests`: manifests whose jobs were buried (`gone`) are held, if they say so; those whose states are locked (`states`)
//! - `job`: the columns of a job that travel unchanged through every table
//! - `job_is_nowhere`: no living job has this id: it is over, or its row was deleted by hand
//! - `job_template`: what the jobs of a manifest get from it
//! - `lock_states`: the states of manifests, locked: a pause or resume that comes at this moment is seen, or waits
//! - `manifest`: what a manifest says, and how far it is planned: `m`, with its group `g`
//! - `manifest_with_state`: manifests `m` with their state `s` and group `g`
//! - `micros`: a moment, or a length of time, in µs
//! - `none_fits`: a word is none of a list, nor begins like one that ends in *
//! - `one_fits`: a word is one of a list, or begins like one that ends in *; an empty list asks nothing
//! - `phase`: a job that nothing holds up waits for its time, or is ready
//! - `raise_stats`: what was counted again replaces what stands there, if it is more
//! - `rank`: the order of all work: the moment a job is due, brought forward by 10 minutes for each step of priority
//! - `routes_in_line`: three CTEs, each with up to 50 routes: `open`, `gated` and `handed` (dispatched, not leased) jobs
//! - `run_ms`: how long a claim ran
//! - `shown_job`: the columns of a job that is not over as lists show it
//! - `state_is_free`: the state of a job's manifest is among the locked ones (`states`), or the job needs none
//! - `step_of`: the beginning of the step of time that a moment is in
//! - `token`: the columns of an access token, without its hash
//! - `urgency`: how far its priority brings a job forward, in µs; the first column of work_queue_urgency
//! - `wait_ms`: how long a job that was due waited for its claim
//! - `waiting_state`: the state of a job in work_queue
//! - `whole_input`: the input of a job; a long one is in a table of its own

use crate::db::snippets::Snippets;

macro_rules! statements {
    ($($folder:literal { $($name:ident $file:literal,)+ })+) => {
        /// A statement that exists for both databases.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Statement { $($($name,)+)+ }

        impl Statement {
            /// All of them, in the order of the declaration.
            pub(crate) const ALL: &[Statement] = &[$($(Statement::$name,)+)+];

            /// The file's name, without folder and ending.
            pub(crate) const fn name(self) -> &'static str {
                match self { $($(Statement::$name => $file,)+)+ }
            }

            const fn postgres(self) -> &'static str {
                match self {
                    $($(Statement::$name => include_str!(concat!("../../sql/", $folder, "/", $file, ".postgres.sql")),)+)+
                }
            }

            const fn sqlite(self) -> &'static str {
                match self {
                    $($(Statement::$name => include_str!(concat!("../../sql/", $folder, "/", $file, ".sqlite.sql")),)+)+
                }
            }
        }
    };
}

statements! {
    "enqueue" {
        Enqueue "enqueue",
        EnqueueOne "enqueue_one",
        EnqueueFree "enqueue_free",
        EnqueueKeys "enqueue_keys",
        EnqueueOwners "enqueue_owners",
        EnqueueReplace "enqueue_replace",
        IdempotencyLock "idempotency_lock",
        IdempotencyRead "idempotency_read",
        IdempotencyWrite "idempotency_write",
        GroupIds "group_ids",
    }
    "plan" {
        PlanLead "plan_lead",
        PlanDue "plan_due",
        PlanShare "plan_share",
        PlanAdvance "plan_advance",
        PlanNext "plan_next",
        ManifestLive "manifest_live",
        TickClaim "tick_claim",
        TickSkip "tick_skip",
        TickRange "tick_range",
        TickBackfill "tick_backfill",
        TickShorten "tick_shorten",
        CancelForNext "cancel_for_next",
    }
    "dispatch" {
        PollWork "poll_work",
        Promote "promote",
        PromoteSince "promote_since",
        DispatchOpen "dispatch_open",
        DispatchGate "dispatch_gate",
        DispatchActive "dispatch_active",
        DispatchGroups "dispatch_groups",
        DispatchGateSoft "dispatch_gate_soft",
        DispatchGroupsSoft "dispatch_groups_soft",
        DispatchKeys "dispatch_keys",
        DispatchGated "dispatch_gated",
        DispatchCandidates "dispatch_candidates",
        DispatchTrial "dispatch_trial",
        SetAside "set_aside",
        HandBack "hand_back",
        LimitSet "limit_set",
        Park "park",
        UnparkKinds "unpark_kinds",
    }
    "claim" {
        Claim "claim",
        MarkStarted "mark_started",
        LeasesOfNode "leases_of_node",
        Reclaim "reclaim",
        ReclaimCandidates "reclaim_candidates",
        ReclaimSetAside "reclaim_set_aside",
        Renew "renew",
        TakeBack "take_back",
    }
    "submit" {
        KindRoutes "kind_routes",
        RouteKinds "route_kinds",
        MoveWaiting "move_waiting",
        Reroute "reroute",
        TransferLeases "transfer_leases",
        OverdueAccepted "overdue_accepted",
        ClaimFacts "claim_facts",
        ClaimsOfWorker "claims_of_worker",
        WorkersSeen "workers_seen",
        WorkerLeave "worker_leave",
        ClaimKeyWrite "claim_key_write",
        ClaimKeyRead "claim_key_read",
        ManifestKeys "manifest_keys",
    }
    "execute" {
        StepRead "step_read",
        StepRecord "step_record",
        Progress "progress",
        LogWrite "log_write",
        LogLock "log_lock",
        LogLength "log_length",
        ParentOutput "parent_output",
        ActivateClaim "activate_claim",
    }
    "settle" {
        SettleRows "settle_rows",
        SettleLock "settle_lock",
        NoteSuccess "note_success",
        Settle "settle",
        SettleSeen "settle_seen",
        DependentsLock "dependents_lock",
        DependentsArm "dependents_arm",
        DependentsReady "dependents_ready",
        WakeLock "wake_lock",
        WakeKeys "wake_keys",
        HeldKeys "held_keys",
        StateLock "state_lock",
    }
    "clean" {
        UnparkForgotten "unpark_forgotten",
        CleanHistory "clean_history",
        CleanDeadLetter "clean_dead_letter",
        CleanTick "clean_tick",
        CleanKey "clean_key",
        CleanLostKey "clean_lost_key",
        CleanLimitKey "clean_limit_key",
        CleanNode "clean_node",
        CleanLock "clean_lock",
        CleanIdempotency "clean_idempotency",
        CleanAudit "clean_audit",
        CleanSession "clean_session",
        CleanStat "clean_stat",
        CleanStatTotal "clean_stat_total",
    }
    "manifests" {
        ManifestLock "manifest_lock",
        ManifestRelease "manifest_release",
        DeclareLock "declare_lock",
        DeclareRelease "declare_release",
        PruneFind "prune_find",
        PruneDependents "prune_dependents",
        PruneRemove "prune_remove",
        PruneJobs "prune_jobs",
        GroupRead "group_read",
        GroupWrite "group_write",
        GroupRerank "group_rerank",
        GroupRerankNext "group_rerank_next",
        GroupReranked "group_reranked",
        ManifestRead "manifest_read",
        ManifestsOfGroup "manifests_of_group",
        ManifestIds "manifest_ids",
        ManifestInsert "manifest_insert",
        ManifestUpdate "manifest_update",
        ManifestParents "manifest_parents",
        ManifestCycle "manifest_cycle",
        ManifestSwitch "manifest_switch",
        Unpark "unpark",
    }
    "operate" {
        FindDeadLetters "find_dead_letters",
        Revive "revive",
        Acknowledge "acknowledge",
        Cancel "cancel",
        CancelProbe "cancel_probe",
        SettingList "setting_list",
        SettingWrite "setting_write",
        RetryNow "retry_now",
        RetryDead "retry_dead",
        RetryFinished "retry_finished",
        BulkAdd "bulk_add",
        BulkLease "bulk_lease",
        BulkPending "bulk_pending",
        BulkLock "bulk_lock",
        BulkAdvance "bulk_advance",
        BulkSpread "bulk_spread",
        BulkCanary "bulk_canary",
        BulkCancel "bulk_cancel",
        ListBulk "list_bulk",
        ExplainJob "explain_job",
        ExplainLimits "explain_limits",
        ExplainManifest "explain_manifest",
        ExplainWaiting "explain_waiting",
        ExplainWorkers "explain_workers",
    }
    "doctor" {
        HealthTrouble "health_trouble",
        HealthAbandoned "health_abandoned",
        HealthLeader "health_leader",
        HealthUnknownKinds "health_unknown_kinds",
        HealthMoves "health_moves",
        HealthOverdue "health_overdue",
        Server "server",
        ServerSession "server_session",
        ServerTransactions "server_transactions",
        ServerTables "server_tables",
        SchemaColumns "schema_columns",
        SchemaRules "schema_rules",
        SchemaIndexes "schema_indexes",
        SchemaOthers "schema_others",
        Sequences "sequences",
        DoctorManifests "doctor_manifests",
    }
    "read" {
        JobState "job_state",
        FinishedJobs "finished_jobs",
        StatDue "stat_due",
        StatTotalRoll "stat_total_roll",
        StatTotalSum "stat_total_sum",
        StatRoll "stat_roll",
        StatTotals "stat_totals",
        StatRead "stat_read",
        StatNow "stat_now",
        StatPipeline "stat_pipeline",
        ListRunning "list_running",
        ListUpcoming "list_upcoming",
        SearchJobs "search_jobs",
        GetJob "get_job",
        ListExecutions "list_executions",
        ListExecutionsLast "list_executions_last",
        ListSteps "list_steps",
        ListLog "list_log",
        ListLogLast "list_log_last",
        GetManifest "get_manifest",
        ListManifests "list_manifests",
        ListTicks "list_ticks",
        ListGroups "list_groups",
        GetGroup "get_group",
        ListDeadLetters "list_dead_letters",
        ListDeadFamilies "list_dead_families",
        ListNodes "list_nodes",
        ListSubmitters "list_submitters",
        EventHorizon "event_horizon",
        ListEvents "list_events",
    }
    "auth" {
        TokenCreate "token_create",
        TokenFind "token_find",
        TokenUsed "token_used",
        TokenList "token_list",
        TokenRevoke "token_revoke",
        SessionBegin "session_begin",
        SessionFind "session_find",
        SessionEnd "session_end",
        SessionList "session_list",
        SessionRevoke "session_revoke",
        AuditBegin "audit_begin",
        AuditEnd "audit_end",
        AuditList "audit_list",
    }
    "node" {
        NodeBeat "node_beat",
        NodeResign "node_resign",
        NodeDrain "node_drain",
        NodeFind "node_find",
        Notify "notify",
        ProbeDatabase "probe_database",
    }
    "db" {
        Now "now",
        SetStatementTimeout "set_statement_timeout",
    }
}

/// Every statement for PostgreSQL, ready to send. `schema` is quoted already.
pub(crate) fn for_postgres(schema: &str) -> Vec<String> {
    let (snippets, prefix) = (Snippets::for_postgres(), format!("{schema}."));
    Statement::ALL.iter().map(|s| snippets.fill_in(s.postgres()).replace("{schema}.", &prefix)).collect()
}

/// Every statement for SQLite. A file may hold several: SQLite has no data-modifying CTEs.
pub(crate) fn for_sqlite() -> Vec<Vec<String>> {
    let snippets = Snippets::for_sqlite();
    Statement::ALL.iter().map(|s| split(&snippets.fill_in(s.sqlite()).replace("{schema}.", ""))).collect()
}

/// Splits at semicolons that end a line; none of our statements has one inside a literal.
fn split(text: &str) -> Vec<String> {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    code.join("\n").split(";\n").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The text of every file, for tests.
#[cfg(test)]
pub(crate) fn raw() -> String {
    Statement::ALL.iter().flat_map(|s| [s.postgres(), s.sqlite()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_placeholder_is_left_over() {
        for text in for_postgres("\"lineclear\"").iter().chain(for_sqlite().iter().flatten()) {
            let left =
                text.match_indices('{').find(|(at, _)| text[at + 1..].starts_with(char::is_alphabetic));
            assert_eq!(left, None, "{text}");
        }
    }

    #[test]
    fn a_dispatch_with_soft_limits_differs_by_its_lock_alone() {
        let statements = for_postgres("\"lineclear\"");
        let code = |statement: Statement| {
            let lines =
                statements[statement as usize].lines().filter(|line| !line.trim_start().starts_with("--"));
            lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
        };
        for (strict, soft, lock) in [
            (Statement::DispatchGate, Statement::DispatchGateSoft, " for no key update"),
            (Statement::DispatchGroups, Statement::DispatchGroupsSoft, " for no key update of g skip locked"),
        ] {
            assert_eq!(code(strict).strip_suffix(lock), Some(code(soft).as_str()));
        }
    }
}

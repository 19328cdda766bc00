//! The statements, by name: `sql/postgres/<name>.sql` and its twin `sql/sqlite/<name>.sql`.
//!
//! Some things are written once and filled in at load: `{schema}`; `{order}`, what a planner reads of a manifest; `{job}`, the columns of a job that never change
//! from acceptance to its end, so that no table forgets one when the job moves; and `{claim}`, what a worker gets.

/// The columns of a job that travel unchanged through every table.
const JOB: &str = "manifest_id, tick_at, origin, kind, route, input, group_id, priority, limit_key, unique_key, \
                   retries, timeout_ms, created_at, trace, tags";

/// What a claim tells the worker. A long input lies in a table of its own.
const CLAIM: &str = "id, (select m.spec from {schema}.manifest m where m.id = manifest_id) as spec, manifest_id, tick_at, origin, kind, route, coalesce(input, (select p.input from \
                     {schema}.job_payload p where p.job_id = id)) as input, group_id, limit_key, retries, timeout_ms, \
                     claim_no, failures, crashes, trace, was_due_at, claimed_at, due_at as lease_ends_at";

/// What a manifest says about its jobs, and how far it is planned.
const ORDER: &str =
    "id, key, kind, route, input, group_id, spec, overlap, priority, retries, timeout_ms, planned_through";

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
        CountReady "count_ready",
        Promote "promote",
        DispatchOpen "dispatch_open",
        DispatchGate "dispatch_gate",
        DispatchActive "dispatch_active",
        DispatchGroups "dispatch_groups",
        DispatchGateSoft "dispatch_gate",
        DispatchGroupsSoft "dispatch_groups",
        DispatchKeys "dispatch_keys",
        DispatchGated "dispatch_gated",
        DispatchCandidates "dispatch_candidates",
        DispatchTrial "dispatch_trial",
        SetAside "set_aside",
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
    }
    "execute" {
        StepRead "step_read",
        StepRecord "step_record",
        Progress "progress",
        LogWrite "log_write",
        ParentOutput "parent_output",
        ActivateClaim "activate_claim",
    }
    "settle" {
        SettleRows "settle_rows",
        SettleLock "settle_lock",
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
        AuditBegin "audit_begin",
        AuditEnd "audit_end",
        AuditList "audit_list",
    }
    "node" {
        NodeBeat "node_beat",
        NodeResign "node_resign",
        NodeDrain "node_drain",
        Notify "notify",
    }
    "db" {
        Now "now",
        SetStatementTimeout "set_statement_timeout",
    }
}

fn fill_in(text: &str, schema: &str) -> String {
    let mut text = text.replace("{claim}", CLAIM).replace("{job}", JOB).replace("{order}", ORDER);
    for (table, word, columns) in
        [("b", "job", JOB), ("g", "job", JOB), ("r", "job", JOB), ("m", "order", ORDER)]
    {
        let of_table: Vec<String> =
            columns.split(", ").map(|column| format!("{table}.{}", column.trim())).collect();
        text = text.replace(&format!("{{{table}.{word}}}"), &of_table.join(", "));
    }
    text.replace("{schema}.", schema)
}

/// The same statement without its lock.
const SOFT: &[Statement] = &[Statement::DispatchGateSoft, Statement::DispatchGroupsSoft];

fn without_lock(text: &str) -> String {
    text.split("for    no key update").next().unwrap_or(text).to_owned()
}

/// Every statement for PostgreSQL, ready to send. `schema` is quoted already.
pub(crate) fn for_postgres(schema: &str) -> Vec<String> {
    let prefix = format!("{schema}.");
    let text = |s: &Statement| match SOFT.contains(s) {
        true => without_lock(s.postgres()),
        false => s.postgres().to_owned(),
    };
    Statement::ALL.iter().map(|s| fill_in(&text(s), &prefix)).collect()
}

/// Every statement for SQLite. A file may hold several: SQLite has no data-modifying CTEs.
pub(crate) fn for_sqlite() -> Vec<Vec<String>> {
    Statement::ALL.iter().map(|s| split(&fill_in(s.sqlite(), ""))).collect()
}

/// Splits at semicolons that end a line; none of our statements has one inside a literal.
fn split(text: &str) -> Vec<String> {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    code.join("\n").split(";\n").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_placeholder_is_left_over() {
        for text in for_postgres("\"lineclear\"").iter().chain(for_sqlite().iter().flatten()) {
            assert!(
                !text.contains("{schema}")
                    && !text.contains("job}")
                    && !text.contains("order}")
                    && !text.contains("{claim"),
                "{text}"
            );
        }
    }
}

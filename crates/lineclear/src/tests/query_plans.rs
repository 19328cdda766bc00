//! With 100,000 rows in every table that grows, each hot statement uses its index and reads none of them whole.

use lineclear_model::Micros;

use crate::db::{Column, Params, Value};
use crate::tests::*;

/// A statement, its parameters, and what its plan must mention.
type Case = (Statement, Params, &'static [&'static str]);

fn int(v: i64) -> Value {
    Value::Int(Some(v))
}

fn text(v: &str) -> Value {
    Value::Text(Some(v.to_owned()))
}

/// A minute ago.
fn recently() -> Micros {
    Micros::from(jiff::Timestamp::now()).offset(-60_000_000)
}

fn ids() -> Vec<i64> {
    (1..=50).map(|n| n * 997).collect()
}

fn claims(values: Vec<Value>) -> Params {
    let jobs = ids().into_iter().map(Some).collect();
    Params { values, batch: vec![Column::Ints(jobs), Column::Ints(vec![Some(1); 50])] }
}

fn renewals() -> Params {
    let mut params = claims(vec![int(1), int(30_000)]);
    params.batch.extend([60_000, 10].map(|ms| Column::Ints(vec![Some(ms); 50])));
    params
}

fn settlements() -> Params {
    let mut params = claims(vec![int(1)]);
    let texts = |word: &str| Column::Texts(vec![Some(word.to_owned()); 50]);
    params.batch.extend([texts("complete"), texts("completed")]);
    params.batch.extend((0..4).map(|_| Column::Texts(vec![None; 50])));
    params.batch.extend([Column::Ints(vec![Some(0); 50]), Column::Texts(vec![None; 50])]);
    params.batch.push(Column::Ints(vec![Some(10); 50]));
    params
}

fn progress() -> Params {
    let mut params = claims(Vec::new());
    params.batch.push(Column::Texts(vec![Some("{}".to_owned()); 50]));
    params
}

fn log_lines() -> Params {
    let mut params = claims(Vec::new());
    let texts = || Column::Texts(vec![Some("x".to_owned()); 50]);
    params.batch.extend([Column::Ints(vec![Some(1); 50]), Column::Times(vec![Some(Micros::EPOCH); 50])]);
    params.batch.extend([texts(), texts(), texts()]);
    params
}

fn replacements() -> Params {
    let texts = |text: &str| Column::Texts(vec![Some(text.to_owned()); 50]);
    let ints = |n: i64| Column::Ints(vec![Some(n); 50]);
    let jobs = Column::Ints(ids().into_iter().map(Some).collect());
    vec![jobs, texts("work"), texts("{}"), ints(0), Column::Times(vec![None; 50]), ints(1), ints(0)].into()
}

fn step_names() -> Params {
    let jobs = Column::Ints(ids().into_iter().map(Some).collect());
    vec![jobs, Column::Texts(vec![Some("one".to_owned()); 50])].into()
}

fn step_results() -> Params {
    let (names, ones) = (Column::Texts(vec![Some("one".to_owned()); 50]), || Column::Ints(vec![Some(1); 50]));
    let mut params = claims(Vec::new());
    let results = [Column::Texts(vec![Some("1".to_owned()); 50]), Column::Texts(vec![None; 50]), ones()];
    params.batch.extend([names, ones()].into_iter().chain(results));
    params
}

fn query(text: &str) -> lineclear_model::query::Query {
    lineclear_model::query::Query::parse(text).expect("a query").fixed_at(Micros::EPOCH)
}

fn search(text: &str) -> Vec<Value> {
    crate::read::search::params(&query(text), 90_000, 50, 1000)
}

/// Dead letters that await a person.
fn awaiting(text: &str) -> Vec<Value> {
    let query = crate::store::BulkAction::Revive.of(query(text));
    crate::read::search::params(&query, 4_000_000, 50, 1000)
}

/// The statements that a busy node runs all the time, and those that run beside them on tables that grow.
fn cases() -> Vec<Case> {
    let dispatch = || vec![text("main"), int(100), int(1), int(30_000)];
    let keys = Value::Texts(vec!["k1".to_owned()]);
    let gated = [dispatch(), vec![Value::Ints(vec![2, 3]), keys, int(100)]].concat();
    let leased_ahead = Value::Bool(false);
    let groups = |all: bool, groups: Vec<i64>| {
        vec![Value::Bool(all), Value::Ints(groups), int(100), leased_ahead.clone()]
    };
    let open = [dispatch(), vec![Value::Bool(false), Value::Bool(true), int(i64::MIN)]].concat();
    let (all_groups, two_groups) = (groups(true, Vec::new()), groups(false, vec![2, 3]));
    let mark = Value::Time(Some(recently()));
    vec![
        (Statement::EnqueueOwners, vec![Value::Texts(vec!["u7".to_owned(), "u8".to_owned()])].into(), &[]),
        (Statement::EnqueueReplace, replacements(), &[]),
        (Statement::PlanDue, vec![int(1000)].into(), &["manifest_due"]),
        (
            Statement::PlanNext,
            vec![Value::Time(None), Value::Time(None)].into(),
            &["manifest_due", "background_job_lease", "background_job_deadline"],
        ),
        (
            Statement::PlanNext,
            vec![mark.clone(), mark.clone()].into(),
            &["manifest_due", "background_job_lease", "background_job_deadline"],
        ),
        (Statement::PlanShare, vec![int(20), int(100)].into(), &["manifest_due_group"]),
        (
            Statement::ManifestLive,
            vec![Value::Ints(ids())].into(),
            &["work_queue_manifest", "background_job_manifest"],
        ),
        (Statement::Promote, vec![int(100)].into(), &["work_queue_urgency", "work_queue_later"]),
        (Statement::PromoteSince, vec![int(100), mark.clone()].into(), &["work_queue_later"]),
        (
            Statement::DispatchOpen,
            [open.clone(), all_groups].concat().into(),
            &["work_queue_open", "work_queue_gated", "background_job_group"],
        ),
        (
            Statement::DispatchOpen,
            [open, two_groups].concat().into(),
            &["work_queue_open", "work_queue_gated"],
        ),
        (
            Statement::DispatchGroups,
            vec![text("main"), int(2), Value::Ints(vec![2, 3])].into(),
            &["work_queue_gated", "background_job_group"],
        ),
        (
            Statement::DispatchKeys,
            vec![text("main"), Value::Ints(vec![2, 3]), int(100)].into(),
            &["work_queue_gated"],
        ),
        (Statement::DispatchGated, gated.into(), &["work_queue_gated", "background_job_limit_key"]),
        (Statement::Claim, dispatch().into(), &["background_job_ready"]),
        (
            Statement::OverdueAccepted,
            vec![Value::Ints(vec![2, 3]), Value::Time(Some(Micros::EPOCH)), Value::Time(None), int(100)]
                .into(),
            &["background_job_deadline"],
        ),
        (Statement::StepRead, step_names(), &["job_step_once"]),
        (Statement::StepRecord, step_results(), &[]),
        (Statement::Progress, progress(), &[]),
        (Statement::ListSteps, vec![int(500), int(10)].into(), &["job_step_once"]),
        (Statement::LogWrite, log_lines(), &[]),
        (Statement::LogLock, claims(vec![int(1)]), &[]),
        (Statement::LogLength, claims(Vec::new()), &["execution_log_once"]),
        (Statement::ListLog, vec![int(500), int(1), int(1), int(10)].into(), &["execution_log_once"]),
        (Statement::ListLogLast, vec![int(500), int(10)].into(), &["execution_log_once"]),
        (
            Statement::Reclaim,
            vec![
                int(100),
                int(3),
                Value::Ints(ids()),
                Value::Ints(Vec::new()),
                Value::Time(Some(Micros::EPOCH)),
                Value::Time(None),
            ]
            .into(),
            &["background_job_lease", "background_job_deadline"],
        ),
        (Statement::Renew, renewals(), &[]),
        (Statement::TakeBack, claims(vec![int(1)]), &["execution_once"]),
        (
            Statement::PollWork,
            [
                vec![Value::Texts(vec!["main".to_owned()]), int(1000)],
                vec![Value::Time(None), Value::Time(None), Value::Time(None), int(0)],
            ]
            .concat()
            .into(),
            &[
                "work_queue_open",
                "work_queue_gated",
                "work_queue_later",
                "background_job_ready",
                "background_job_lease",
                "background_job_deadline",
            ],
        ),
        (
            Statement::PollWork,
            [
                vec![Value::Texts(vec!["main".to_owned()]), int(1000)],
                vec![mark.clone(), mark.clone(), mark, int(99_000)],
            ]
            .concat()
            .into(),
            &["work_queue_open", "work_queue_later", "background_job_ready", "background_job_lease"],
        ),
        (
            Statement::UnparkKinds,
            vec![Value::Texts(vec!["work".to_owned()]), int(100)].into(),
            &["work_queue_unknown"],
        ),
        (Statement::MarkStarted, claims(Vec::new()), &[]),
        (Statement::SettleRows, vec![Value::Ints(ids())].into(), &[]),
        (Statement::SettleLock, vec![Value::Ints(ids())].into(), &[]),
        (Statement::HandBack, vec![text("main"), int(500), int(30_000)].into(), &["background_job_ready"]),
        (Statement::EnqueueFree, vec![Value::Texts(vec!["k1".to_owned()])].into(), &[]),
        (Statement::Settle, settlements(), &[]),
        (Statement::SettleSeen, claims(Vec::new()), &[]),
        (Statement::WakeKeys, vec![Value::Texts(vec!["k1".to_owned()])].into(), &["work_queue_held"]),
        (
            Statement::HeldKeys,
            vec![text(""), int(100)].into(),
            &["work_queue_held", "background_job_limit_key"],
        ),
        (Statement::CancelProbe, vec![int(1)].into(), &["background_job_cancel"]),
        (Statement::Cancel, vec![Value::Ints(ids())].into(), &[]),
        (Statement::JobState, vec![int(500)].into(), &[]),
        (Statement::FinishedJobs, vec![Value::Ints(ids())].into(), &["execution_final"]),
        (
            Statement::ListEvents,
            vec![Value::Time(Some(recently())), int(100)].into(),
            &["execution_completed", "execution_ended", "execution_tried", "audit_at"],
        ),
        (Statement::TokenFind, vec![text("p5")].into(), &["access_token_prefix"]),
        (Statement::SessionFind, vec![text("h5")].into(), &["browser_session"]),
        (Statement::SessionRevoke, vec![text("h5")].into(), &["browser_session"]),
        (
            Statement::SessionList,
            vec![Value::Time(Some(recently())), text("h5"), int(50)].into(),
            &["browser_session_expires"],
        ),
        (
            Statement::AuditList,
            vec![int(90_000), int(50), int(1000), text("token:ci"), Value::Text(None), Value::Time(None)]
                .into(),
            &[],
        ),
        (
            Statement::StatDue,
            Params::default(),
            &["execution_completed", "execution_ended", "execution_tried"],
        ),
        (
            Statement::StatTotalRoll,
            vec![
                Value::Time(Some(recently())),
                Value::Time(Some(recently().offset(60_000_000))),
                Value::Ints(vec![0, 1, 2, 5]),
            ]
            .into(),
            &["execution_completed", "execution_ended", "execution_tried"],
        ),
        (
            Statement::StatTotals,
            vec![
                Value::Time(Some(recently())),
                Value::Time(Some(recently().offset(60_000_000))),
                int(60),
                Value::Ints(vec![0, 1, 2, 5]),
                int(60),
            ]
            .into(),
            &["execution_completed", "execution_ended", "execution_tried"],
        ),
        (
            Statement::StatRoll,
            vec![Value::Time(Some(recently())), Value::Time(Some(recently().offset(60_000_000)))].into(),
            &["execution_completed", "execution_ended", "execution_tried"],
        ),
        (
            Statement::CleanHistory,
            vec![int(1), int(1), int(100)].into(),
            &["execution_completed", "execution_ended"],
        ),
        (Statement::CleanTick, vec![int(1), int(100)].into(), &["tick_old"]),
        (Statement::CleanKey, vec![int(100)].into(), &["job_key_old"]),
        (Statement::CleanLostKey, vec![text("u7"), int(100)].into(), &[]),
        (Statement::CleanLimitKey, vec![text("k7"), int(100)].into(), &["background_job_limit_key"]),
        (
            Statement::UnparkForgotten,
            vec![int(0), int(100), int(100)].into(),
            &["work_queue_parked_manifest"],
        ),
        (
            Statement::PruneJobs,
            vec![Value::Ints(ids()), text("why")].into(),
            &["work_queue_manifest", "background_job_manifest"],
        ),
        (
            Statement::TickRange,
            vec![int(500), Value::Time(Some(Micros::EPOCH)), Value::Time(Some(Micros::EPOCH))].into(),
            &[],
        ),
        (Statement::ParentOutput, vec![int(500), int(7), text("m5")].into(), &["execution_final"]),
        (Statement::GetJob, vec![int(500)].into(), &[]),
        (Statement::RetryNow, vec![Value::Ints(ids())].into(), &[]),
        (Statement::RetryDead, vec![Value::Ints(ids())].into(), &[]),
        (Statement::RetryFinished, vec![Value::Ints(ids())].into(), &["execution_final"]),
        (Statement::ExplainJob, vec![int(500)].into(), &["execution_final"]),
        (
            Statement::ExplainLimits,
            vec![int(2), text("k1"), int(5), int(100)].into(),
            &["background_job_group", "background_job_limit_key"],
        ),
        (Statement::ExplainManifest, vec![text("m5")].into(), &["manifest_key"]),
        (
            Statement::ExplainWaiting,
            vec![int(500), int(5)].into(),
            &["work_queue_manifest", "background_job_manifest"],
        ),
        (
            Statement::HealthTrouble,
            vec![int(100), int(1)].into(),
            &["background_job_lease", "work_queue_unknown", "manifest_due"],
        ),
        (
            Statement::StatPipeline,
            vec![int(100)].into(),
            &["manifest_due", "work_queue_later", "background_job_ready", "background_job_lease"],
        ),
        (Statement::ListRunning, vec![int(20)].into(), &["background_job_lease"]),
        (Statement::ListUpcoming, vec![int(3_600_000_000), int(20)].into(), &["manifest_due"]),
        (Statement::HealthAbandoned, vec![int(100), int(1)].into(), &["background_job_lease"]),
        (Statement::DoctorManifests, vec![int(5000)].into(), &[]),
        (Statement::HealthUnknownKinds, vec![int(20)].into(), &["work_queue_unknown"]),
        (
            Statement::HealthOverdue,
            vec![int(1), int(20)].into(),
            &[
                "work_queue_open",
                "work_queue_gated",
                "work_queue_held",
                "work_queue_parked",
                "work_queue_later",
                "background_job_ready",
            ],
        ),
        (
            Statement::HealthMoves,
            vec![int(60_000_000), int(5_000)].into(),
            &["background_job_lease", "execution_completed", "execution_ended", "execution_tried"],
        ),
        (
            Statement::StatNow,
            vec![int(10_000)].into(),
            &["work_queue_open", "work_queue_gated", "background_job_ready"],
        ),
        (Statement::ListExecutions, vec![int(500), int(10), int(0)].into(), &[]),
        (Statement::ListExecutionsLast, vec![int(2_000_500), int(10)].into(), &["execution_once"]),
        (Statement::ListManifests, vec![text("m5"), int(10)].into(), &["manifest_key"]),
        (
            Statement::ListDeadLetters,
            [
                vec![int(90_000), text("awaiting"), int(50), text("a")],
                vec![Value::Text(None); 4],
                vec![Value::Time(None), int(1000)],
            ]
            .concat()
            .into(),
            &["dead_letter_"],
        ),
        // By the index of awaiting dead letters or by status: both are short.
        (
            Statement::ListDeadFamilies,
            [vec![Value::Text(None); 5], vec![Value::Time(None), int(1000), int(50)]].concat().into(),
            &[],
        ),
        (Statement::SearchJobs, search("").into(), &["execution_final"]),
        // The acknowledged ones, 99 of 100, are not read.
        (Statement::SearchJobs, awaiting("reason:permanent").into(), &["dead_letter_awaiting"]),
        (
            Statement::SearchJobs,
            search("state:failed kind:a* -group:b manifest:m* node:n error:x since:1h id:<90000").into(),
            &[],
        ),
    ]
}

/// They end after a few rows of a job that may have very many: their index has their order.
const IN_ORDER: &[&str] = &["list_executions", "list_executions_last", "list_log", "list_log_last"];

const BIG: &[&str] = &[
    "work_queue",
    "background_job",
    "execution",
    "manifest",
    "manifest_state",
    "tick",
    "job_payload",
    "job_key",
    "job_step",
    "execution_log",
    "dead_letter",
    "access_token",
    "browser_session",
    "audit",
];

/// 100,000 rows in each table, spread over phases, routes, groups and keys. `{n}` is the row's number.
fn load() -> Vec<(&'static str, &'static str)> {
    vec![
        (
            "manifest (key, owner, kind, route, input, spec, overlap, priority, retries, timeout_ms, enabled, held, next_due_at, planned_through, declared, created_at, updated_at)",
            "'m' || {n}, '', 'work', 'main', '{}', '{}', 'skip', 0, 3, 1000, {true}, {n} % 50 = 0, {now+n}, {now}, '{}', {now}, {now}",
        ),
        ("manifest_state (manifest_id)", "{n}"),
        ("tick (manifest_id, tick_at, job_id)", "{n} % 1000, {now-n}, {n}"),
        (
            "work_queue (id, manifest_id, origin, fresh, kind, route, input, group_id, priority, due_at, phase, rank, gated, limit_key, created_at)",
            "{n}, case when {n} % 10 = 0 then {n} end, 'adhoc', {false}, 'work', case when {n} % 3 = 0 then 'other' else 'main' end, '{}', \
          case when {n} % 4 = 0 then 2 + {n} % 2 end, 0, {now+n}, \
          case {n} % 10 when 0 then 'parked' when 1 then 'later' when 2 then 'held' else 'ready' end, {n}, {n} % 4 = 0 or {n} % 10 in (2, 3), \
          case when {n} % 10 in (2, 3) then 'k' || ({n} % 100) end, {now}",
        ),
        (
            "background_job (id, manifest_id, origin, kind, route, input, group_id, priority, due_at, was_due_at, rank, gated, limit_key, claim_no, failures, crashes, created_at, leased_by)",
            "1000000 + {n}, case when {n} % 10 = 0 then {n} end, 'adhoc', 'work', case when {n} % 3 = 0 then 'other' else 'main' end, '{}', \
          case when {n} % 100 = 0 then 2 + {n} % 2 end, 0, {now+n}, {now}, {n}, {n} % 100 = 0, \
          case when {n} % 100 = 1 then 'k' || {n} end, 1, 0, 0, {now}, case when {n} % 2 = 0 then 1 end",
        ),
        (
            "execution (job_id, claim_no, final, outcome, origin, kind, created_at, due_at, finished_at)",
            "2000000 + {n}, 1, {n} % 5 <> 0, case when {n} % 7 = 0 then 'failed' else 'completed' end, 'adhoc', 'work', {now}, {now}, {now-n}",
        ),
        ("job_payload (job_id, input)", "{n}, '{}'"),
        ("job_key (key, job_id)", "'u' || {n}, {n}"),
        (
            "job_step (job_id, name, claim_no, turn, output, started_at, finished_at)",
            "{n} / 2, 's' || ({n} % 2), 1, 1, '{}', {now}, {now}",
        ),
        (
            "execution_log (job_id, claim_no, line_no, logged_at, level, target, message)",
            "{n} / 10, 1, {n} % 10, {now}, 'INFO', 'app', 'x'",
        ),
        (
            "dead_letter (job_id, origin, kind, route, priority, claim_no, failures, crashes, created_at, reason, fingerprint, status, dead_at)",
            "3000000 + {n}, 'adhoc', 'work', 'main', 0, 1, 1, 0, {now}, 'permanent', 'f' || ({n} % 100), \
          case when {n} % 100 = 0 then 'awaiting' else 'acknowledged' end, {now-n}",
        ),
        (
            "access_token (name, prefix, hash, scopes, created_at, created_by)",
            "'t' || {n}, 'p' || {n}, 'h' || {n}, 'read', {now}, 'a test'",
        ),
        ("browser_session (hash, token_id, created_at, expires_at)", "'h' || {n}, {n}, {now}, {now+n}"),
        ("audit (at, who, action, target, request_id)", "{now-n}, 'token:ci', 'put_group', 'etl', 'r'"),
    ]
}

#[tokio::test]
async fn hot_statements_use_their_indexes_on_postgres() {
    let pg = Pg::open().await;
    pg.group("a", 5).await;
    pg.group("b", 5).await;
    for (table, values) in load() {
        let values = values
            .replace("{true}", "true")
            .replace("{false}", "false")
            .replace("{now+n}", "now() + n * interval '1 second'")
            .replace("{now-n}", "now() - n * interval '1 second'")
            .replace("{now}", "now()")
            .replace("{n}", "n");
        pg.sql(&format!("insert into lineclear.{table} select {values} from generate_series(1, 100000) n"))
            .await;
    }
    pg.sql("insert into lineclear.limit_key (key) select 'k' || n from generate_series(0, 99) n").await;
    pg.sql("analyze").await;
    for (statement, params, expected) in cases() {
        let mut session = Session::Postgres(pg.db().session(false).await.unwrap());
        let plan = session.explain(statement, params).await.unwrap();
        for index in expected {
            assert!(plan.contains(index), "{} does not use {index}:\n{plan}", statement.name());
        }
        for table in BIG {
            let whole = plan.lines().any(|line| {
                line.trim_end().ends_with(&format!("Seq Scan on {table}"))
                    || line.contains(&format!("Seq Scan on {table} "))
            });
            assert!(!whole, "{} reads {table} whole:\n{plan}", statement.name());
        }
        let sorts = IN_ORDER.contains(&statement.name()) && plan.contains("Sort");
        assert!(!sorts, "{} sorts:\n{plan}", statement.name());
    }
}

/// Loads the same rows, and explains.
struct LoadAndExplain;

impl Verb for LoadAndExplain {
    type Answer = Vec<(&'static str, String, &'static [&'static str])>;

    async fn run(&self, session: &mut Session) -> StoreResult<Self::Answer> {
        for (table, values) in load() {
            let values = values
                .replace("{true}", "1")
                .replace("{false}", "0")
                .replace("{now+n}", "now_us() + n * 1000000")
                .replace("{now-n}", "now_us() - n * 1000000")
                .replace("{now}", "now_us()")
                .replace("{n}", "n");
            let numbers = "with recursive s (n) as (select 1 union all select n + 1 from s where n < 100000)";
            session.batch(&format!("{numbers} insert into {table} select {values} from s")).await?;
        }
        session.batch("analyze").await?;
        let mut plans = Vec::new();
        for (statement, params, expected) in cases() {
            plans.push((statement.name(), session.explain(statement, params).await?, expected));
        }
        Ok(plans)
    }
}

#[tokio::test]
async fn hot_statements_use_their_indexes_on_sqlite() {
    let store = Store::open(StoreOptions::new(":memory:").expect("a URL")).await.expect("the store opens");
    for (statement, plan, expected) in store.run(LoadAndExplain).await.expect("plans") {
        for index in expected {
            assert!(
                plan.contains(index) || SQLITE_IMPLICIT.contains(index),
                "{statement} does not use {index}:\n{plan}"
            );
        }
        for table in BIG.iter().chain(ALIASES) {
            let whole = plan.lines().any(|line| line.split_whitespace().take(2).eq(["SCAN", table]));
            assert!(!whole, "{statement} reads {table} whole:\n{plan}");
        }
        let sorts = IN_ORDER.contains(&statement) && plan.contains("TEMP B-TREE");
        assert!(!sorts, "{statement} sorts:\n{plan}");
    }
}

/// The aliases of big tables in the statements; SQLite's plans know only these names.
const ALIASES: &[&str] = &["b", "w", "x", "e", "m", "d", "t"];

/// Indexes of UNIQUE and PRIMARY KEY constraints have no name of ours in SQLite.
const SQLITE_IMPLICIT: &[&str] =
    &["manifest_key", "job_step_once", "execution_log_once", "execution_once", "access_token_prefix"];

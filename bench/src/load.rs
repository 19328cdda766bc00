//! Loads millions of rows, by one statement per table that both databases understand.

use anyhow::{Result, ensure};
use lineclear::model::{Manifest, Name, Schedule};

use crate::Database;
use crate::scratch_db::{ScratchDb, now_micros};

const MINUTE: i64 = 60_000_000;
const DAY_MINUTES: i64 = 1_440;
const DAY: i64 = DAY_MINUTES * MINUTE;

/// One step of priority, as the store counts it.
const PRIORITY_STEP: i64 = 10 * MINUTE;

/// Numbers 1 to `rows`, as `n`; in 64 bits, because times in microseconds are made of them.
fn series(rows: u32) -> String {
    format!(
        "with recursive series (n) as (
             select cast(1 as bigint) union all select n + 1 from series where n < {rows})"
    )
}

/// Daily manifests, each at its own minute.
pub(crate) struct Manifests {
    /// How many.
    pub(crate) all: u32,
    /// The first minute of the day that one of them may have. No other tick comes for two hours: it would be planned with
    /// those that are measured.
    first_minute: i64,
}

impl Manifests {
    pub(crate) async fn load(db: &ScratchDb, all: u32) -> Result<Manifests> {
        let manifests = Manifests { all, first_minute: now_micros() / MINUTE % DAY_MINUTES + 120 };
        // Room for new versions of a row beside the old one, as in a table that has been in use for a while.
        // Otherwise the due rows would all move to the end of the table, side by side, when they are made due.
        if db.database() == Database::Postgres {
            db.sql("alter table {t}manifest set (fillfactor = 85)").await?;
        }
        let next = format!("{} + {DAY}", manifests.last_tick("n"));
        manifests.insert(db, all, "job", "false", &next).await?;
        Ok(manifests)
    }

    /// Manifests that are due and wait for a person.
    pub(crate) async fn add_held(&self, db: &ScratchDb, held: u32) -> Result<()> {
        self.insert(db, held, "held", "true", &self.last_tick("n")).await
    }

    /// Makes one of `every` manifests due, spread over the whole table, and others in each `round`. Deletes the rows that the
    /// pass of the last round wrote.
    pub(crate) async fn make_due(&self, db: &ScratchDb, every: u32, round: u32) -> Result<()> {
        db.sql("delete from {t}tick").await?;
        db.sql("delete from {t}work_queue").await?;
        db.vacuum().await?;
        // Neighbours would share pages with those of the round before.
        let turn = (u64::from(round) * 367) % u64::from(every);
        let last = self.last_tick("id");
        db.sql(&format!(
            "update {{t}}manifest set next_due_at = {{at({last})}}, planned_through = {{at({last} - {DAY})}}
             where  id % {every} = {turn} and id <= {all}",
            all = self.all
        ))
        .await
    }

    /// The minute of the day of manifest `n`, spread over 20 hours.
    fn minute(&self, n: &str) -> String {
        format!("(({} + {n} * 7919 % 1200) % {DAY_MINUTES})", self.first_minute)
    }

    /// The last tick of manifest `n`.
    fn last_tick(&self, n: &str) -> String {
        let (now, minute) = (now_micros(), self.minute(n));
        format!("({now} - ({now} - {minute} * {MINUTE}) % {DAY})")
    }

    async fn insert(&self, db: &ScratchDb, rows: u32, key: &str, held: &str, next: &str) -> Result<()> {
        let (head, tail) = spec_around_minute()?;
        let minute = self.minute("n");
        db.sql(&format!(
            "{series}
             insert into {{t}}manifest
                    (key, owner, kind, route, input, spec, overlap, priority, retries, timeout_ms, enabled,
                     held, next_due_at, planned_through, declared, created_at, updated_at)
             select '{key}-' || n, 'bench', 'report.daily', 'main', '{{\"customer\":' || n || '}}',
                    '{head}' || ({minute} % 60) || ' ' || ({minute} / 60) || '{tail}', 'skip', 0, 3, 1200000,
                    true, {held}, {{at({next})}}, {{at({next} - {DAY})}}, '{{}}', {{at({now})}}, {{at({now})}}
             from   series",
            series = series(rows),
            now = now_micros(),
        ))
        .await
    }
}

/// A real spec, cut in two where its minute and hour stand.
fn spec_around_minute() -> Result<(String, String)> {
    const MARK: &str = "17 13";
    let schedule = Schedule::cron(&format!("{MARK} * * *"), "UTC")?;
    let spec = Manifest::new(Name::new("bench")?, Name::new("report.daily")?, schedule).spec().to_json();
    let parts: Vec<&str> = spec.split(MARK).collect();
    ensure!(parts.len() == 2 && !spec.contains('\''), "a spec is written in another way now: {spec}");
    Ok((parts[0].to_owned(), parts[1].to_owned()))
}

/// Waiting jobs without a manifest.
pub(crate) struct Waiting<'a> {
    /// The id of the first; ids must differ.
    pub(crate) first_id: u32,
    pub(crate) rows: u32,
    pub(crate) route: &'a str,
    pub(crate) priority: i64,
    /// When the last of them is due, from now; each is due a millisecond before the next.
    pub(crate) due_in: i64,
    /// The gated group they are in, by name.
    pub(crate) group: Option<&'a str>,
}

impl Waiting<'_> {
    pub(crate) async fn load(&self, db: &ScratchDb) -> Result<()> {
        let due = format!("({} + (n - {}) * 1000)", now_micros() + self.due_in, self.rows);
        let phase = if self.due_in > 0 { "later" } else { "ready" };
        let (group, gated) = group(self.group);
        db.sql(&format!(
            "{series}
             insert into {{t}}work_queue
                    (id, origin, fresh, kind, route, input, group_id, priority, due_at, phase, rank, gated,
                     created_at)
             select {first} + n, 'adhoc', false, 'mail.send', '{route}', '{{\"to\":' || n || '}}', {group},
                    {priority}, {{at({due})}}, '{phase}', {due} - {lead}, {gated}, {{at({due})}}
             from   series",
            series = series(self.rows),
            first = self.first_id - 1,
            route = self.route,
            priority = self.priority,
            lead = self.priority * PRIORITY_STEP,
        ))
        .await
    }
}

/// Dispatched jobs without a lease; those of a group have a lease of an unknown node for a day.
pub(crate) async fn handed_out(
    db: &ScratchDb,
    first_id: u32,
    rows: u32,
    route: &str,
    group_name: Option<&str>,
) -> Result<()> {
    let now = now_micros();
    let due = format!("({now} - {DAY} + n)");
    let (group, gated) = group(group_name);
    let (node, lease_end) = if group_name.is_some() { ("0", now + DAY) } else { ("null", now) };
    db.sql(&format!(
        "{series}
         insert into {{t}}background_job
                (id, origin, kind, route, input, group_id, priority, due_at, was_due_at, rank, gated, claim_no,
                 failures, crashes, created_at, leased_by)
         select {first} + n, 'adhoc', 'mail.send', '{route}', '{{\"to\":' || n || '}}', {group}, 0,
                {{at({lease_end})}}, {{at({due})}}, {due}, {gated}, 0, 0, 0, {{at({due})}}, {node}
         from   series",
        series = series(rows),
        first = first_id - 1,
    ))
    .await
}

/// Finished jobs, a quarter of a second apart.
pub(crate) async fn history(db: &ScratchDb, first_id: u32, rows: u32) -> Result<()> {
    History { first_id, rows, apart_us: 250_000, manifests: 0 }.load(db).await
}

/// Executions that ended one after the other, the last one now.
pub(crate) struct History {
    pub(crate) first_id: u32,
    pub(crate) rows: u32,
    /// The time between two.
    pub(crate) apart_us: u64,
    /// The number of manifests, which take turns; 0: none.
    pub(crate) manifests: u32,
}

impl History {
    pub(crate) async fn load(&self, db: &ScratchDb) -> Result<()> {
        let History { first_id, rows, apart_us, manifests } = self;
        let at = format!("({} + (n - {rows}) * {apart_us})", now_micros());
        // From a millisecond to ten seconds.
        let began = format!("({at} - (n % 100) * (n % 100) * 1000)");
        let manifest = match manifests {
            0 => "null".to_owned(),
            many => format!("1 + n % {many}"),
        };
        db.sql(&format!(
            "{series}
             insert into {{t}}execution
                    (job_id, claim_no, final, outcome, origin, kind, manifest_id, node, created_at, due_at, claimed_at,
                     started_at, finished_at)
             select {first} + n, 1, true, case when n % 50 = 0 then 'cancelled' else 'completed' end, 'adhoc',
                    'mail.send', {manifest}, 1, {{at({began})}}, {{at({began})}}, {{at({began})}}, {{at({began})}}, {{at({at})}}
             from   series",
            series = series(*rows),
            first = first_id - 1,
        ))
        .await
    }
}

/// Held locks, and as many events of them as the registry keeps of busy ones.
pub(crate) async fn locks(db: &ScratchDb, leases: u32, events: u32) -> Result<()> {
    let now = now_micros();
    db.sql(&format!(
        "{series}
         insert into {{t}}lock_lease
                (lock_name, store, node, machine, pid, incarnation, epoch, since_at, acquired_at, renewed_at, renew_ms, holds, contended)
         select 'lock-' || n, 'redis', 'node-' || n % 10, 'machine', n, 'i' || n, n, {{at({now})}}, {{at({now})}}, {{at({now})}}, 600000, n, 0
         from   series",
        series = series(leases)
    ))
    .await?;
    db.sql(&format!(
        "{series}
         insert into {{t}}lock_event (lock_name, store, what, at, holder, epoch, before)
         select 'lock-' || (1 + n % {leases}), 'redis', 'taken', {{at({now} + (n - {events}) * 1000000)}},
                'machine/' || n % 10 || '/i' || n % 10, n, 'machine/' || (n + 1) % 10 || '/i' || (n + 1) % 10
         from   series",
        series = series(events)
    ))
    .await
}

/// Gated groups, each with an active job, which is its limit, and a waiting one that ranks before all others.
pub(crate) async fn full_groups(db: &ScratchDb, first_id: u32, groups: u32) -> Result<()> {
    db.sql(&format!(
        "{series} insert into {{t}}manifest_group (name, max_active, gated) select 'full-' || n, 1, true from series",
        series = series(groups)
    ))
    .await?;
    let (now, group) = (now_micros(), "(select id from {t}manifest_group where name = 'full-' || n)");
    db.sql(&format!(
        "{series}
         insert into {{t}}work_queue
                (id, origin, fresh, kind, route, input, group_id, priority, due_at, phase, rank, gated, created_at)
         select {first} + n, 'adhoc', false, 'mail.send', 'main', '{{}}', {group}, 31, {{at({now} + n)}}, 'ready', n, true,
                {{at({now} + n)}}
         from   series",
        series = series(groups),
        first = first_id - 1,
    ))
    .await?;
    db.sql(&format!(
        "{series}
         insert into {{t}}background_job
                (id, origin, kind, route, input, group_id, priority, due_at, was_due_at, rank, gated, claim_no, failures, crashes,
                 created_at, leased_by)
         select {first} + n, 'adhoc', 'mail.send', 'main', '{{}}', {group}, 31, {{at({now} + {DAY} + n)}}, {{at({now} + n)}}, n, true,
                1, 0, 0, {{at({now} + n)}}, 0
         from   series",
        series = series(groups),
        first = first_id - 1 + groups,
    ))
    .await
}

/// Jobs of paused manifests, which take turns.
pub(crate) async fn parked(db: &ScratchDb, first_id: u32, rows: u32, manifests: u32) -> Result<()> {
    let due = format!("({} + (n - {rows}) * 1000)", now_micros());
    db.sql(&format!(
        "{series}
         insert into {{t}}work_queue
                (id, manifest_id, origin, fresh, kind, route, input, priority, due_at, phase, rank, gated, created_at)
         select {first} + n, 1 + n % {manifests}, 'backfill', false, 'report.daily', 'main', '{{}}', 0, {{at({due})}}, 'parked',
                {due}, false, {{at({due})}}
         from   series",
        series = series(rows),
        first = first_id - 1,
    ))
    .await
}

/// Jobs for later whose unique keys were kept for a time that is over.
pub(crate) async fn scheduled_with_expired_keys(db: &ScratchDb, first_id: u32, rows: u32) -> Result<()> {
    let (now, first) = (now_micros(), first_id - 1);
    let due = format!("({now} + {DAY} + n * 1000)");
    db.sql(&format!(
        "{series}
         insert into {{t}}work_queue
                (id, origin, fresh, kind, route, input, priority, due_at, phase, rank, gated, unique_key, created_at)
         select {first} + n, 'adhoc', false, 'mail.send', 'main', '{{}}', 0, {{at({due})}}, 'later', {due}, false, 'order-' || n,
                {{at({now} + 0 * n)}}
         from   series",
        series = series(rows)
    ))
    .await?;
    db.sql(&format!(
        "{series}
         insert into {{t}}job_key (key, job_id, until) select 'order-' || n, {first} + n, {{at({now} - {DAY} + n)}} from series",
        series = series(rows)
    ))
    .await
}

/// Jobs that were scheduled, promoted, leased and settled.
pub(crate) async fn passed(db: &ScratchDb, first_id: u32, rows: u32) -> Result<()> {
    Waiting { first_id, rows, route: "main", priority: 0, due_in: 0, group: None }.load(db).await?;
    db.sql("update {t}work_queue set phase = 'later'").await?;
    db.sql("update {t}work_queue set phase = 'ready'").await?;
    db.sql(&format!(
        "insert into {{t}}background_job
                (id, origin, kind, route, input, priority, due_at, was_due_at, rank, gated, claim_no, failures, crashes, created_at,
                 leased_by, deadline_at)
         select id, origin, kind, route, input, priority, due_at, due_at, rank, gated, 1, 0, 0, created_at, {node}, due_at
         from   {{t}}work_queue",
        node = db.lease.node
    ))
    .await?;
    db.sql("delete from {t}work_queue").await?;
    db.sql("delete from {t}background_job").await?;
    // A poll asks for jobs that came after the last id.
    db.sql(&format!("select setval('{{t}}job_id', {})", first_id + rows)).await
}

/// Dead letters of ten families.
pub(crate) async fn dead(db: &ScratchDb, first_id: u32, rows: u32) -> Result<()> {
    let at = format!("({} + (n - {rows}) * 1000000)", now_micros());
    db.sql(&format!(
        "{series}
         insert into {{t}}dead_letter
                (job_id, origin, kind, route, input, priority, claim_no, failures, crashes, last_error, created_at, reason,
                 fingerprint, dead_at)
         select {first} + n, 'adhoc', 'mail.send', 'main', '{{}}', 0, 4, 4, 0, 'error of family ' || n % 10, {{at({at})}},
                'retries_used_up', 'f' || n % 10, {{at({at})}}
         from   series",
        series = series(rows),
        first = first_id - 1,
    ))
    .await
}

/// Ids of new jobs begin after those that were loaded.
pub(crate) async fn next_id(db: &ScratchDb, id: u32) -> Result<()> {
    match db.database() {
        Database::Postgres => db.sql(&format!("alter sequence {{t}}job_id restart with {id}")).await,
        Database::Sqlite => db.sql(&format!("update job_id set last = {id}")).await,
    }
}

/// A group's id as SQL, and whether its jobs wait in the lane with limits.
fn group(name: Option<&str>) -> (String, bool) {
    match name {
        Some(name) => (format!("(select id from {{t}}manifest_group where name = '{name}')"), true),
        None => ("null".to_owned(), false),
    }
}

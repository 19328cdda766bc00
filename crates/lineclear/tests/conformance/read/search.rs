//! The search language, compared with a filter over all jobs in memory.

use lineclear::model::query::{Moment, Names, Query, Span};
use lineclear::model::{GroupSpec, JobState, Manifest, Micros, RetryPolicy, judge};
use lineclear::read::JobView;
use lineclear::store::{JobId, NewJob, Retried, RetryOptions, Settlement};

use crate::kit::{TestDb, completed, daily, failed, job, name};

/// Pseudo-random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % sides as u64).unwrap()
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.roll(of.len())]
    }
}

const KINDS: [&str; 4] = ["import", "import-csv", "export", "mail.send"];
const ERRORS: [&str; 4] = ["connect timeout", "Connect refused", "50% of \"rows\" are bad_", "timeout"];

/// Jobs of every sort, in every state.
async fn fill(db: &TestDb, dice: &mut Dice, count: usize) {
    for group in ["etl", "etl-2"] {
        db.group(group, GroupSpec::default()).await;
    }
    for key in ["extract-a", "extract-b", "load"] {
        let tags = if key == "load" { Vec::new() } else { vec![name("night"), name("big-2")] };
        db.declare(Manifest { tags, ..daily(key) }).await;
    }
    let nodes = [db.node("web-1").await, db.node("web-2").await, db.node("batch").await];
    for _ in 0..count {
        if dice.roll(4) == 0 {
            db.store
                .trigger(name(dice.one(&["extract-a", "extract-b", "load"])), Default::default())
                .await
                .unwrap();
        } else {
            let group = [None, Some("etl"), Some("etl-2")][dice.roll(3)].map(name);
            let later = (dice.roll(5) == 0).then(|| Micros::new(4_102_444_800_000_000).unwrap());
            let limit_key = (dice.roll(8) == 0).then(|| "one".to_owned());
            let kind = name(dice.one(&KINDS));
            let tags =
                [None, Some("night"), Some("big"), Some("big-2 x night")][dice.roll(4)].map(str::to_owned);
            db.enqueue(NewJob { kind, group, due_at: later, limit_key, tags, ..job() }).await;
        }
        if dice.roll(2) == 0 {
            let node = nodes[dice.roll(3)];
            for claim in db.take(node, 2).await {
                let error = dice.one(&ERRORS);
                let (outcome, policy) = match dice.roll(5) {
                    0 => (completed(), crate::kit::policy()),
                    1 => (failed(error), crate::kit::policy()),
                    2 => (failed(error), RetryPolicy { retries: 0, ..crate::kit::policy() }),
                    3 => {
                        db.store.cancel(claim.job).await.unwrap();
                        (failed(error), crate::kit::policy())
                    }
                    _ => continue,
                };
                let verdict = judge(&outcome, claim.failures, &policy);
                db.store.settle(node, vec![Settlement::new(&claim, outcome, verdict)]).await.unwrap();
            }
        }
        if dice.roll(10) == 0 {
            let id = db.store.jobs(&Default::default(), None, 1).await.unwrap().items[0].id;
            db.store.cancel(id).await.unwrap();
        }
    }
}

fn names_fit(names: &Names, value: Option<&str>) -> bool {
    let fits = |pattern: &String| match (value, pattern.strip_suffix('*')) {
        (None, _) => false,
        (Some(value), Some(beginning)) => value.starts_with(beginning),
        (Some(value), None) => value == pattern,
    };
    (names.any_of.is_empty() || names.any_of.iter().any(fits)) && !names.none_of.iter().any(fits)
}

/// One of a job's tags fits, and none that may not.
fn tags_fit(names: &Names, tags: &[String]) -> bool {
    let one = |pattern: &String| {
        let only = Names { any_of: vec![pattern.clone()], none_of: Vec::new() };
        tags.iter().any(|tag| names_fit(&only, Some(tag)))
    };
    (names.any_of.is_empty() || names.any_of.iter().any(one)) && !names.none_of.iter().any(one)
}

/// The filter in memory. How long a claim ran is not in a view.
fn fits(query: &Query, view: &JobView) -> bool {
    let error = view.last_error.as_deref().unwrap_or_default();
    let has = |part: &String| error.contains(part.as_str());
    let at = |moment: Moment| moment.at(Micros::EPOCH);
    query.wants(view.state)
        && query.origins.as_ref().is_none_or(|origins| origins.contains(&view.origin))
        && names_fit(&query.kind, Some(&view.kind))
        && names_fit(&query.group, view.group.as_deref())
        && names_fit(&query.manifest, view.manifest_key.as_deref())
        && tags_fit(&query.tag, &view.tags)
        && names_fit(&query.route, view.route.as_deref())
        && names_fit(&query.node, view.node_name.as_deref())
        && (query.error.any_of.is_empty() || query.error.any_of.iter().any(has))
        && !query.error.none_of.iter().any(has)
        && (query.ids.is_empty() || query.ids.contains(&view.id.0))
        && !query.not_ids.contains(&view.id.0)
        && query.id_span.has(view.id.0)
        && query.claims.has(view.claim_no.into())
        && query.since.is_none_or(|since| view.created_at >= at(since))
        && query.until.is_none_or(|until| view.created_at < at(until))
}

async fn everything(db: &TestDb, query: &Query, most: u32) -> Vec<JobView> {
    let (mut all, mut before) = (Vec::new(), None);
    loop {
        let found = db.store.search(query, before, most).await.unwrap();
        all.extend(found.items);
        match found.next {
            Some(next) => before = Some(next),
            None => return all,
        }
    }
}

fn term(dice: &mut Dice, all: &[JobView]) -> String {
    let sign = if dice.roll(4) == 0 { "-" } else { "" };
    let view = &all[dice.roll(all.len())];
    match dice.roll(12) {
        0 => format!(
            "{sign}state:{}",
            dice.one(&["failed", "waiting", "over", "dead,running", "completed", "held", "queued"])
        ),
        1 => {
            format!("{sign}kind:{}", dice.one(&["import", "import*", "export,mail.send", "i*,e*", "missing"]))
        }
        2 => format!("{sign}group:{}", dice.one(&["etl", "etl*", "etl-2", "x*"])),
        3 => format!("{sign}manifest:{}", dice.one(&["extract-*", "load", "extract-a,load", "zzz"])),
        4 => format!("{sign}node:{}", dice.one(&["web-*", "web-1", "batch,web-2"])),
        5 => format!(
            "{sign}error:{}",
            dice.one(&["timeout", "\"connect timeout\"", "\"50% of \\\"rows\\\"\"", "bad_,refused"])
        ),
        6 => format!("{sign}id:{}", view.id),
        7 => format!("id:{}{}", dice.one(&["<", "<=", ">", ">="]), view.id),
        8 => format!("claims:{}{}", dice.one(&["<=", ">", ">=", ""]), dice.roll(3)),
        9 => format!("{}:{}", dice.one(&["since", "until"]), view.created_at),
        10 => format!("{sign}tag:{}", dice.one(&["night", "big", "big*", "x,big", "*", "ight*"])),
        _ => format!("{sign}origin:{}", dice.one(&["adhoc", "trigger", "tick,adhoc"])),
    }
}

conformance! {
    // What dead letters are put together by can be searched for: a family is a search, and its batch treats the family.
    async fn families_of_errors_are_found(db) {
        fill(db, &mut Dice(11), 120).await;
        let families = db.store.dead_families(&Default::default(), 100).await.unwrap();
        assert!(families.items.iter().filter(|family| family.fingerprint.is_some()).count() > 2);
        let count = async |q: &str| {
            db.store.search(&Query::parse(q).unwrap(), None, 1_000).await.unwrap().items.len() as u64
        };
        let mut all = 0;
        for family in &families.items {
            let Some(fingerprint) = &family.fingerprint else { continue };
            let q = format!("state:dead kind:{} fingerprint:{fingerprint} reason:{}", family.kind, family.reason);
            assert_eq!(count(&q).await, family.count, "{q}");
            all += family.count;
        }
        assert_eq!(count("state:dead fingerprint:*").await, all);
        assert_eq!(count("state:dead -fingerprint:*").await + all, count("state:dead").await);
    }

    async fn a_reason_is_that_of_a_dead_letter_and_what_is_none_has_none(db) {
        fill(db, &mut Dice(5), 60).await;
        let all = everything(db, &Query::default(), 1_000).await;
        let letters = db.store.dead_letters(Some("awaiting"), None, 1_000).await.unwrap().items;
        db.sql("update {t}dead_letter set reason = 'permanent' where id % 2 = 0").await;
        let even = letters.iter().filter(|letter| letter.id.0 % 2 == 0).count();
        assert!(even > 0 && even < letters.len() && letters.len() < all.len(), "the test has too few: {even}");
        let count = async |q: &str| everything(db, &Query::parse(q).unwrap(), 7).await.len();
        assert_eq!(count("reason:permanent").await, even);
        assert_eq!(count("reason:permanent,retries_used_up").await, letters.len());
        assert_eq!(count("-reason:permanent").await, all.len() - even, "what has no reason is found by - only");
        assert_eq!(count("state:dead -reason:permanent").await, letters.len() - even);
        assert_eq!(count("reason:worker_lost").await, 0);
        assert_eq!(count("reason:permanent -state:dead").await, 0);
        let found = db.store.search(&Query::parse("reason:permanent").unwrap(), None, 1_000).await.unwrap();
        assert_eq!(found.rows_scanned, letters.len() as u64, "other tables are not even looked at");
    }

    pgbouncer async fn a_search_finds_what_a_filter_in_memory_finds(db) {
        let mut dice = Dice(7);
        fill(db, &mut dice, 60).await;
        let all = everything(db, &Query::default(), 1000).await;
        assert!(all.len() >= 60, "{}", all.len());
        let states: std::collections::BTreeSet<JobState> = all.iter().map(|view| view.state).collect();
        assert!(states.len() >= 6, "the test has too few states: {states:?}");
        let (mut some, mut asked) = (0, 0);
        while asked < 150 {
            let terms: Vec<String> = (0..=dice.roll(3)).map(|_| term(&mut dice, &all)).collect();
            // The same field twice is refused.
            let Ok(query) = Query::parse(&terms.join(" ")) else { continue };
            let found: Vec<JobId> = everything(db, &query, 7).await.iter().map(|view| view.id).collect();
            let expected: Vec<JobId> = all.iter().filter(|view| fits(&query, view)).map(|view| view.id).collect();
            assert_eq!(found, expected, "{query}");
            asked += 1;
            some += usize::from(!expected.is_empty() && expected.len() < all.len());
        }
        assert!(some > 50, "most of the queries find all or nothing: {some}");
    }

    async fn a_job_keeps_its_tags_from_its_acceptance_into_history_and_when_it_runs_again(db) {
        let node = db.node("a").await;
        db.declare(Manifest { tags: vec![name("night")], ..daily("m") }).await;
        let found = async |q: &str| -> Vec<(JobId, Vec<String>)> {
            let found = db.store.search(&Query::parse(q).unwrap(), None, 50).await.unwrap();
            found.items.into_iter().map(|view| (view.id, view.tags)).collect()
        };
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let own = db.enqueue(NewJob { tags: Some("a b".to_owned()), ..job() }).await;
        let of_manifest = db.store.trigger(name("m"), Default::default()).await.unwrap().unwrap();
        let plain = db.enqueue(job()).await;
        let expected = vec![(of_manifest, words(&["night"]))];
        assert_eq!(found("tag:night").await, expected);
        // It is what it was accepted with, whatever its manifest says later.
        db.store.edit_manifest(Manifest { tags: vec![name("day")], ..daily("m") }, None).await.unwrap();
        for claim in db.take(node, 10).await {
            db.settle(node, &claim, completed()).await;
        }
        assert_eq!(found("tag:night state:completed").await, expected);
        assert_eq!(found("tag:a,night").await, [expected[0].clone(), (own, words(&["a", "b"]))]);
        assert_eq!(found("-tag:a,night").await, [(plain, Vec::new())], "what has none is found by - only");
        for (job, tags) in [(own, words(&["a", "b"])), (of_manifest, words(&["day"]))] {
            let Retried::Again(again) = db.store.retry(job, RetryOptions::default()).await.unwrap() else { panic!() };
            assert_eq!(db.store.job(again).await.unwrap().unwrap().job.tags, tags);
            db.store.cancel(again).await.unwrap();
            assert_eq!(db.store.job(again).await.unwrap().unwrap().job.tags, tags, "cancelled");
        }
        let refused = db.store.enqueue(NewJob { tags: Some("a, b".to_owned()), ..job() }).await.unwrap_err();
        assert!(refused.to_string().contains("tags must be names"), "{refused}");
    }

    async fn how_long_a_claim_ran_can_be_looked_for(db) {
        let node = db.node("a").await;
        let quick = db.enqueue(job()).await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        let slow = db.enqueue(job()).await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        let long = db.enqueue(job()).await;
        db.take_one(node).await;
        db.enqueue(job()).await;
        for (table, column) in [("execution", "claimed_at"), ("execution", "started_at"), ("background_job", "claimed_at"), ("background_job", "started_at")] {
            let id = if table == "execution" { "job_id" } else { "id" };
            let seconds = if table == "execution" { 45 } else { 600 };
            let by = if db.url().contains("://") { format!("interval '{seconds} seconds'") } else { format!("{seconds} * 1000000") };
            db.sql(&format!("update {{t}}{table} set {column} = {column} - {by} where {id} in ({}, {})", slow.0, long.0)).await;
        }
        let found = async |q: &str| -> Vec<JobId> {
            everything(db, &Query::parse(q).unwrap(), 10).await.iter().map(|view| view.id).collect()
        };
        assert_eq!(found("duration:>30s").await, [long, slow]);
        assert_eq!(found("duration:>30s duration:<5m").await, [slow]);
        assert_eq!(found("duration:<=30s").await, [quick]);
        assert_eq!(found("duration:>=0s").await, [long, slow, quick], "what never ran has no length");
        assert_eq!(found("since:1h state:over").await, [slow, quick]);
        assert_eq!(found("until:1h").await, []);
        assert_eq!(Query::parse("duration:>30s").unwrap().duration, Some(Span { min: 30_000_001, max: i64::MAX }));
    }

    async fn a_rare_thing_in_a_long_line_is_looked_for_in_parts_and_the_answer_says_so(db) {
        let rare = db.enqueue(NewJob { kind: name("rare"), ..job() }).await;
        for _ in 0..3 {
            db.store.enqueue_many(vec![job(); 5_000]).await.unwrap();
        }
        let query = Query::parse("kind:rare").unwrap();
        let first = db.store.search(&query, None, 50).await.unwrap();
        assert_eq!((first.items.len(), first.rows_scanned), (0, 10_000));
        let second = db.store.search(&query, Some(first.next.expect("there is more")), 50).await.unwrap();
        assert_eq!((second.items[0].id, second.rows_scanned, second.next), (rare, 5_001, None));
        let all = db.store.search(&Query::default(), None, 50).await.unwrap();
        assert_eq!((all.items.len(), all.rows_scanned), (50, 50), "a plain list reads what it shows");
        let dead = db.store.search(&Query::parse("state:dead").unwrap(), None, 50).await.unwrap();
        assert_eq!((dead.rows_scanned, dead.next), (0, None), "other tables are not even looked at");
        let one = db.store.search(&Query::parse(&format!("id:{rare}")).unwrap(), None, 50).await.unwrap();
        assert_eq!((one.items.len(), one.rows_scanned, one.next), (1, 1, None), "by index");
        let counted = db.store.count(&Query::parse("kind:work").unwrap()).await.unwrap();
        assert!(counted.count >= 10_000 && !counted.is_exact, "{counted:?}");
        let counted = db.store.count(&query).await.unwrap();
        assert_eq!((counted.count, counted.is_exact), (1, true));
    }
}

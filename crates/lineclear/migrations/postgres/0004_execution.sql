-- 0004_execution · history: one row per ended claim, insert-only. No foreign key points here.

create table {schema}.execution (
    job_id        bigint  not null,
    claim_no      integer not null,
    -- The row that ended its job; a job has at most one.
    final         boolean not null,
    outcome       text    not null constraint execution_outcome check
                  (outcome in ('completed', 'failed', 'timed_out', 'cancelled', 'lost', 'released', 'snoozed')),
    manifest_id   bigint,
    tick_at       timestamptz,
    origin        text    not null,
    kind          text    not null,
    group_id      bigint,
    node          bigint,
    -- Of the final row, if it is short: a long one stays in job_payload.
    input         text,
    output        text,
    error_type    text,
    error_message text,
    fingerprint   text,
    created_at    timestamptz not null,
    due_at        timestamptz not null,
    claimed_at    timestamptz,
    started_at    timestamptz,
    finished_at   timestamptz not null,
    constraint execution_once primary key (job_id, claim_no)
);
create index execution_final     on {schema}.execution (job_id) where final;
create index execution_completed on {schema}.execution (finished_at) where final and outcome = 'completed';
create index execution_ended     on {schema}.execution (finished_at) where final and outcome <> 'completed';

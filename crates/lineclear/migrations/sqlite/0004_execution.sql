-- 0004_execution · history: one row per ended claim, insert-only. No foreign key points here.

create table execution (
    job_id        integer  not null,
    claim_no      integer not null,
    -- The row that ended its job; a job has at most one.
    final         integer not null,
    outcome       text    not null constraint execution_outcome check
                  (outcome in ('completed', 'failed', 'timed_out', 'cancelled', 'lost', 'released', 'snoozed')),
    manifest_id   integer,
    tick_at       integer,
    origin        text    not null,
    kind          text    not null,
    group_id      integer,
    node          integer,
    -- Of the final row, if it is short: a long one stays in job_payload.
    input         text,
    output        text,
    error_type    text,
    error_message text,
    fingerprint   text,
    created_at    integer not null,
    due_at        integer not null,
    claimed_at    integer,
    started_at    integer,
    finished_at   integer not null,
    constraint execution_once primary key (job_id, claim_no)
) strict;
create index execution_final     on execution (job_id) where final;
create index execution_completed on execution (finished_at) where final and outcome = 'completed';
create index execution_ended     on execution (finished_at) where final and outcome <> 'completed';

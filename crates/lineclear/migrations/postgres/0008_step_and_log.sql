-- 0008_step_and_log · what handlers leave behind while they run: steps, which outlive a try, and log lines.

create table {schema}.job_step (
    job_id      bigint  not null,
    name        text    not null,
    -- The claim that wrote it last.
    claim_no    integer not null,
    -- Its place among the steps of that claim.
    turn        integer not null,
    -- JSON of a step that finished; null if it failed, and so will be done again.
    output      text,
    error       text,
    started_at  timestamptz not null,
    finished_at timestamptz not null,
    constraint job_step_once primary key (job_id, name)
);

create table {schema}.execution_log (
    job_id    bigint  not null,
    claim_no  integer not null,
    line_no   integer not null,
    -- On the clock of the node that ran it.
    logged_at timestamptz not null,
    level     text    not null,
    target    text    not null,
    message   text    not null,
    constraint execution_log_once primary key (job_id, claim_no, line_no)
);

-- 0018_stat · figures by the minute, rolled up from history: charts must not count what happened a week ago again.

create table {schema}.stat_minute (
    minute      timestamptz not null,
    kind        text   not null,
    -- 0: none.
    group_id    bigint not null,
    manifest_id bigint not null,
    outcome     text   not null,
    -- Claims that ended in this minute.
    claims      bigint not null,
    run_ms      bigint not null,
    run_ms_max  bigint not null,
    -- From when the job was due to when it was claimed.
    wait_ms     bigint not null,
    wait_ms_max bigint not null,
    constraint stat_minute_once primary key (minute, kind, group_id, manifest_id, outcome)
);

-- How far it is rolled up. One row.
create table {schema}.stat_mark (
    one     boolean primary key default true constraint stat_mark_one check (one),
    through timestamptz not null
);
insert into {schema}.stat_mark (through) values (date_trunc('minute', now()) - interval '1 day');


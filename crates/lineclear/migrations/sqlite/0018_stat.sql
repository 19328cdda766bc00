-- 0018_stat · figures by the minute, rolled up from history: charts must not count what happened a week ago again.

create table stat_minute (
    minute      integer not null,
    kind        text    not null,
    -- 0: none.
    group_id    integer not null,
    manifest_id integer not null,
    outcome     text    not null,
    -- Claims that ended in this minute.
    claims      integer not null,
    run_ms      integer not null,
    run_ms_max  integer not null,
    -- From when the job was due to when it was claimed.
    wait_ms     integer not null,
    wait_ms_max integer not null,
    constraint stat_minute_once primary key (minute, kind, group_id, manifest_id, outcome)
) strict, without rowid;

-- How far it is rolled up. One row.
create table stat_mark (
    one     integer primary key default 1 constraint stat_mark_one check (one = 1),
    through integer not null
) strict;
insert into stat_mark (through) values ((unixepoch() / 60 - 1440) * 60000000);

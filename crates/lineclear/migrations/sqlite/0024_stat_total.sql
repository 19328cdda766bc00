-- 0024_stat_total · figures of everything by the minute, with how long claims ran: the charts of a week must not read a row for every manifest.

create table stat_total (
    -- Seconds that a row stands for: 60, and again in 1200 for charts of a day and 7200 for those of a week.
    step_s      integer not null,
    -- When they begin.
    at          integer not null,
    outcome     text    not null,
    -- Claims that ran at least so many ms, and less than the next of 0, 1, 2, 5, 10, 20, 50, …; -1: nobody ever had them.
    run_from_ms integer not null,
    claims      integer not null,
    run_ms      integer not null,
    run_ms_max  integer not null,
    wait_ms     integer not null,
    wait_ms_max integer not null,
    constraint stat_total_once primary key (step_s, at, outcome, run_from_ms)
) strict, without rowid;

-- Of what was rolled up before, only the mean is known. The last minutes are rolled up again, and are left to that.
insert into stat_total (step_s, at, outcome, run_from_ms, claims, run_ms, run_ms_max, wait_ms, wait_ms_max)
select step.s, minute / (step.s * 1000000) * (step.s * 1000000), outcome,
       case when outcome = 'cancelled' and run_ms = 0 then -1 else (select max(ran.value) from json_each('[0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000, 20000000, 50000000]') ran
        where  ran.value <= run_ms / max(claims, 1)) end,
       sum(claims), sum(run_ms), max(run_ms_max), sum(wait_ms), max(wait_ms_max)
from   stat_minute
cross  join (select 60 as s union all select 1200 union all select 7200) as step
where  minute < (select through from stat_mark) - 180000000
group  by 1, 2, 3, 4;

-- 0024_stat_total · figures of everything by the minute, with how long claims ran: the charts of a week must not read a row for every manifest.

create table {schema}.stat_total (
    -- Seconds that a row stands for: 60, and again in 1200 for charts of a day and 7200 for those of a week.
    step_s      integer not null,
    -- When they begin.
    at          timestamptz not null,
    outcome     text   not null,
    -- Claims that ran at least so many ms, and less than the next of 0, 1, 2, 5, 10, 20, 50, …; -1: nobody ever had them.
    run_from_ms bigint not null,
    claims      bigint not null,
    run_ms      bigint not null,
    run_ms_max  bigint not null,
    wait_ms     bigint not null,
    wait_ms_max bigint not null,
    constraint stat_total_once primary key (step_s, at, outcome, run_from_ms)
);

-- Of what was rolled up before, only the mean is known. The last minutes are rolled up again, and are left to that.
insert into {schema}.stat_total (step_s, at, outcome, run_from_ms, claims, run_ms, run_ms_max, wait_ms, wait_ms_max)
select step.s, to_timestamp(floor(extract(epoch from minute) / step.s) * step.s), outcome,
       case when outcome = 'cancelled' and run_ms = 0 then -1 else (select max(ran) from unnest(array [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000,
                                            500000, 1000000, 2000000, 5000000, 10000000, 20000000, 50000000]::bigint[]) ran
        where  ran <= run_ms / greatest(claims, 1)) end,
       sum(claims), sum(run_ms), max(run_ms_max), sum(wait_ms), max(wait_ms_max)
from   {schema}.stat_minute
cross  join (values (60), (1200), (7200)) as step (s)
where  minute < (select through from {schema}.stat_mark) - interval '3 minutes'
group  by 1, 2, 3, 4;

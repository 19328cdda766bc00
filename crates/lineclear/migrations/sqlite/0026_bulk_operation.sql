-- 0026_bulk_operation · the table of bulk operations is named after them; a batch is many jobs in one call.
-- Made anew, because SQLite cannot rename constraints.

create table bulk_operation (
    id             integer primary key autoincrement,
    action         text    not null constraint bulk_operation_action check (action in ('cancel', 'retry', 'revive', 'acknowledge')),
    -- What it is done to, in the search language, with every moment fixed.
    q              text    not null,
    reason         text,
    created_by     text    not null,
    created_at     integer not null,
    -- Until then it can be taken back without a trace.
    starts_at      integer not null,
    status         text    not null default 'waiting' constraint bulk_operation_status
                   check (status in ('waiting', 'running', 'done', 'cancelled')),
    -- As they were counted when it was made, up to a bound.
    total          integer not null,
    total_is_exact integer not null,
    done           integer not null default 0,
    -- Jobs that could not be treated any more when their turn came.
    skipped        integer not null default 0,
    -- Jobs below this id are still to be looked at. Moves in the transaction that treats them, so that each is treated once.
    position       integer not null,
    -- The newest job that it can mean.
    newest         integer not null,
    leased_by      text,
    lease_ends_at  integer,
    finished_at    integer,
    -- How its jobs are released.
    mode           text    not null default 'all' constraint bulk_operation_mode check (mode in ('all', 'spread', 'canary')),
    -- Of spread: the time over which its jobs become due.
    over_ms        integer,
    -- When a server began with it; of a canary: when its one job was released.
    begun_at       integer,
    -- The job that goes first. Another one than was found if that one was over: it is run again as a new job.
    canary_job_id  integer,
    -- When the canary is checked again; null: there is none to wait for.
    look_at        integer,
    -- Why it stopped; null: it did not, or a person stopped it.
    stopped_because text
) strict;
insert into bulk_operation
      (id, action, q, reason, created_by, created_at, starts_at, status, total, total_is_exact, done, skipped, position, newest,
       leased_by, lease_ends_at, finished_at, mode, over_ms, begun_at, canary_job_id, look_at, stopped_because)
select id, action, q, reason, created_by, created_at, starts_at, status, total, total_is_exact, done, skipped, position, newest,
       leased_by, lease_ends_at, finished_at, mode, over_ms, begun_at, canary_job_id, look_at, stopped_because
from   batch;
-- Numbers go on where they were, so that none is given twice.
delete from sqlite_sequence where name = 'bulk_operation';
insert into sqlite_sequence (name, seq) select 'bulk_operation', seq from sqlite_sequence where name = 'batch';
drop table batch;
create index bulk_operation_open on bulk_operation (starts_at) where status in ('waiting', 'running');

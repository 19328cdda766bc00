-- 0017_batch · what people do to many jobs at once, portion by portion.

create table batch (
    id             integer primary key autoincrement,
    action         text        not null constraint batch_action check (action in ('cancel', 'retry', 'revive', 'acknowledge')),
    -- What it is done to, in the search language, with every moment fixed.
    q              text        not null,
    reason         text,
    created_by     text        not null,
    created_at     integer not null,
    -- Until then it can be taken back without a trace.
    starts_at      integer not null,
    status         text        not null default 'waiting' constraint batch_status
                   check (status in ('waiting', 'running', 'done', 'cancelled')),
    -- As they were counted when it was made, up to a bound.
    total          integer      not null,
    total_is_exact integer     not null,
    done           integer      not null default 0,
    -- Jobs that could not be treated any more when their turn came.
    skipped        integer      not null default 0,
    -- Jobs below this id are still to be looked at. Moves in the transaction that treats them, so that each is treated once.
    position       integer      not null,
    -- The newest job that it can mean.
    newest         integer      not null,
    leased_by      text,
    lease_ends_at  integer,
    finished_at    integer
) strict;
create index batch_open on batch (starts_at) where status in ('waiting', 'running');

-- 0017_batch · what people do to many jobs at once, portion by portion.

create table {schema}.batch (
    id             bigint generated always as identity primary key,
    action         text        not null constraint batch_action check (action in ('cancel', 'retry', 'revive', 'acknowledge')),
    -- What it is done to, in the search language, with every moment fixed.
    q              text        not null,
    reason         text,
    created_by     text        not null,
    created_at     timestamptz not null default now(),
    -- Until then it can be taken back without a trace.
    starts_at      timestamptz not null,
    status         text        not null default 'waiting' constraint batch_status
                   check (status in ('waiting', 'running', 'done', 'cancelled')),
    -- As they were counted when it was made, up to a bound.
    total          bigint      not null,
    total_is_exact boolean     not null,
    done           bigint      not null default 0,
    -- Jobs that could not be treated any more when their turn came.
    skipped        bigint      not null default 0,
    -- Jobs below this id are still to be looked at. Moves in the transaction that treats them, so that each is treated once.
    position       bigint      not null,
    -- The newest job that it can mean.
    newest         bigint      not null,
    leased_by      text,
    lease_ends_at  timestamptz,
    finished_at    timestamptz
);
create index batch_open on {schema}.batch (starts_at) where status in ('waiting', 'running');

-- 0006_node · who is, or was, alive.

create table {schema}.node (
    id          bigint generated always as identity primary key,
    name        text    not null,
    host        text    not null,
    pid         bigint  not null,
    incarnation text    not null constraint node_incarnation unique,
    version     text    not null,
    roles       text    not null,
    routes      text    not null,
    slots       integer not null,
    runners     text    not null,
    started_at  timestamptz not null default now(),
    seen_at     timestamptz not null default now()
);
create index node_seen on {schema}.node (seen_at);

-- 0006_node · who is, or was, alive.

create table node (
    id          integer primary key autoincrement,
    name        text    not null,
    host        text    not null,
    pid         integer  not null,
    incarnation text    not null constraint node_incarnation unique,
    version     text    not null,
    roles       text    not null,
    routes      text    not null,
    slots       integer not null,
    runners     text    not null,
    started_at  integer not null,
    seen_at     integer not null
) strict;
create index node_seen on node (seen_at);

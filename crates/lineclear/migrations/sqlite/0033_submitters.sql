-- 0033_submitters · kinds whose jobs leave their nodes: for an HTTP worker, a worker that polls, or a system of the user's

-- Where the jobs of a kind go that name no route. Kinds that nodes run themselves have no row.
create table kind_route (
    kind  text primary key,
    route text not null
) strict;

-- The name of an accepted job in the system that runs it.
alter table background_job add column external_id text;

-- Kinds that a token of scope `worker` is bound to, as a JSON list. Null: all.
alter table access_token add column kinds text;

-- The key that signs the tokens of claims. All nodes share it.
create table claim_key (
    id     integer primary key check (id = 1),
    secret text not null
) strict;

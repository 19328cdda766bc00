-- 0010_declaration · who declares what: releases, removed manifests, and whether a dead letter holds its manifest.

alter table manifest
    add column on_dead text not null default 'hold' constraint manifest_on_dead check (on_dead in ('hold', 'go_on'));
-- Removed by a declaration that no longer has it. The row stays: history, ledger and dead letters name it, and a tick
-- that ran does not run again if the manifest comes back.
alter table manifest add column removed_at integer;
create index manifest_owner on manifest (owner) where removed_at is null;

-- The newest release of each owner that has declared: an older one that starts once more changes nothing.
create table declaration (
    owner       text    primary key,
    release     integer not null,
    declared_at integer not null
) strict;

-- Which job of each parent a turn is for, where turns are told apart: overlap = allow, and dormant activations.
create table turn_parent (
    job_id        integer not null,
    parent_id     integer not null,
    parent_job_id integer not null,
    primary key (job_id, parent_id)
) strict;

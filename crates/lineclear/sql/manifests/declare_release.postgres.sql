-- declare_release · which release of an owner is the newest, this one included
-- $1 owner, $2 release
insert into {schema}.declaration as d (owner, release) values ($1::text, $2::bigint)
on conflict (owner) do update
set    release = greatest(d.release, excluded.release),
       declared_at = case when excluded.release >= d.release then now() else d.declared_at end
returning release

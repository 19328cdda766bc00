-- declare_release · which release of an owner is the newest, this one included
-- ?1 owner, ?2 release
insert into declaration (owner, release, declared_at) values (?1, ?2, now_us())
on conflict (owner) do update
set    release = max(release, excluded.release),
       declared_at = iif(excluded.release >= release, excluded.declared_at, declared_at)
returning release

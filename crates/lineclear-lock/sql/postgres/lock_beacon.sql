-- lock_beacon · whether some connection of this database holds a beacon
create or replace function {schema}.lock_beacon_lives(beacon bigint) returns boolean language sql volatile as $$
  select exists (
    select from pg_locks k
    where k.locktype = 'advisory' and k.granted and k.objsubid = 1
      and k.database = (select oid from pg_database where datname = current_database())
      and k.classid = ((beacon >> 32) & 4294967295)::oid and k.objid = (beacon & 4294967295)::oid)
$$

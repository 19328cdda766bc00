-- outbox_partition_empty · whether no message is ready, waiting or dead
-- The first one in the order of each index: with `exists`, the planner may read the table until it meets one.
-- $1 names: of the outbox and all partitions that it may have
select not exists (
  select from unnest($1::text[]) as n (name)
  where (select m.id from {schema}.outbox_message m
         where m.outbox between n.name and n.name and m.ready order by m.outbox, m.id limit 1) is not null
     or (select m.id from {schema}.outbox_message m
         where m.outbox between n.name and n.name and not m.ready and m.dead_at is null order by m.outbox, m.due_at, m.id limit 1) is not null
     or (select m.id from {schema}.outbox_message m
         where m.outbox between n.name and n.name and m.dead_at is not null order by m.outbox, m.id limit 1) is not null
) as empty

-- enqueue · new jobs → work_queue
-- As in PostgreSQL, over a temporary table because SQLite has no data-modifying CTEs.
-- ?1 rows of columns
delete from temp.incoming;
insert into temp.incoming
select key, coalesce(value ->> 0, (select last from job_id) + row_number() over (partition by value ->> 0 is null order by key)),
       value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9,
       coalesce(value ->> 10, now_us()) + coalesce(value ->> 17, 0) * 1000, value ->> 11, value ->> 12, value ->> 13, value ->> 14, value ->> 15, value ->> 16
from   json_each(?1);
update job_id set last = max(last, (select coalesce(max(id), 0) from temp.incoming));
insert into work_queue
       (id, manifest_id, tick_at, origin, fresh, kind, route, input, group_id, priority, due_at, phase, rank, gated,
        limit_key, unique_key, retries, timeout_ms, created_at, trace, tags)
select i.id, i.manifest_id, i.tick_at, i.origin, i.fresh, i.kind, iif(i.route = 'main', coalesce(k.route, 'main'), i.route), iif(octet_length(i.input) <= 512, i.input, null),
       i.group_id, i.priority, i.due_at, {phase(i.due_at)},
       {rank(i.due_at, i.priority, g.priority)}, coalesce(g.gated, 0) or i.limit_key is not null,
       i.limit_key, i.unique_key, i.retries, i.timeout_ms, now_us(), i.trace, i.tags
from   temp.incoming i left join manifest_group g on g.id = i.group_id left join kind_route k on k.kind = i.kind
where  true
order  by i.turn
on conflict (manifest_id) where fresh do nothing;
insert into job_payload (job_id, input)
select i.id, i.input from temp.incoming i
where  octet_length(i.input) > 512 and exists (select 1 from work_queue w where w.id = i.id);
select i.id, i.turn from temp.incoming i where exists (select 1 from work_queue w where w.id = i.id) order by i.turn

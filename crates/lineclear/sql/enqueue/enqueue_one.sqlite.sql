-- enqueue_one · one new job → work_queue
-- As in PostgreSQL. Always one row.
-- ?1 id or null, ?2 manifest, ?3 tick, ?4 origin, ?5 kind, ?6 route, ?7 input, ?8 group, ?9 priority, ?10 due or null, ?11 limit key,
-- ?12 unique key, ?13 retries, ?14 timeout in ms, ?15 trace, ?16 tags, ?17 delay in ms
update job_id set last = iif(?1 is null, last + 1, max(last, ?1));
insert into work_queue
       (id, manifest_id, tick_at, origin, fresh, kind, route, input, group_id, priority, due_at, phase, rank, gated,
        limit_key, unique_key, retries, timeout_ms, created_at, trace, tags)
select coalesce(?1, (select last from job_id)), ?2, ?3, ?4, 0, ?5, iif(?6 = 'main', coalesce(k.route, 'main'), ?6),
       iif(octet_length(?7) <= 512, ?7, null), ?8, ?9, d.due_at, {phase(d.due_at)},
       {rank(d.due_at, ?9, g.priority)}, coalesce(g.gated, 0) or ?11 is not null,
       ?11, ?12, ?13, ?14, now_us(), ?15, ?16
from   (select coalesce(?10, now_us()) + coalesce(?17, 0) * 1000 as due_at) d
       left join manifest_group g on g.id = ?8
       left join kind_route k on k.kind = ?5;
insert into job_payload (job_id, input)
select coalesce(?1, (select last from job_id)), ?7 where octet_length(?7) > 512;
select coalesce(?1, (select last from job_id)) as id

-- unpark_forgotten · jobs that are parked although their manifest runs: of a page of the manifests with parked jobs
-- As in PostgreSQL. Index: work_queue_parked_manifest.
-- ?1 after this manifest, ?2 manifests of a page, ?3 at most so many jobs of each
delete from temp.head;
insert into temp.head (id)
with recursive parked (manifest_id, n) as (
    select * from (select manifest_id, 1 from work_queue
                   where  phase = 'parked' and not unknown_kind and manifest_id > ?1 order by manifest_id limit 1)
    union all
    select (select w.manifest_id from work_queue w
            where  w.phase = 'parked' and not w.unknown_kind and w.manifest_id > parked.manifest_id
            order  by w.manifest_id limit 1), n + 1
    from   parked where parked.manifest_id is not null and n < ?2
)
select manifest_id from parked where manifest_id is not null;
update work_queue
set    phase = {phase(due_at)}
where  id in (select w.id
              from   temp.head h
              cross  join manifest m on m.id = h.id and m.enabled
              cross  join work_queue w
                     on w.id in (select x.id from work_queue x
                                 where  x.manifest_id = m.id and x.phase = 'parked' and not x.unknown_kind
                                 limit  ?3));
select changes() as cleaned, (select iif(count(*) >= ?2, max(id), null) from temp.head) as next

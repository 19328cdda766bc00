-- unpark_forgotten · jobs that are parked although their manifest runs: of a page of the manifests with parked jobs
-- For the cleaner: whatever the cause, they must not wait for ever. Jumps from manifest to manifest in the index: a paused one costs
-- the same with a million parked jobs as with one.
-- Index: work_queue_parked_manifest. `next`: the last manifest of the page; null: it was the last page.
-- $1 after this manifest, $2 manifests of a page, $3 at most so many jobs of each
with recursive parked (manifest_id, n) as (
    (select manifest_id, 1 from {schema}.work_queue
     where  phase = 'parked' and not unknown_kind and manifest_id > $1::bigint
     order  by manifest_id limit 1)
    union all
    select (select w.manifest_id from {schema}.work_queue w
            where  w.phase = 'parked' and not w.unknown_kind and w.manifest_id > parked.manifest_id
            order  by w.manifest_id limit 1), n + 1
    from   parked where parked.manifest_id is not null and n < $2::bigint
),
unparked as (
    update {schema}.work_queue
    set    phase = {phase(due_at)}
    where  id = any (array (
               select w.id
               from   parked
               join   {schema}.manifest m on m.id = parked.manifest_id and m.enabled
               cross  join lateral (
                          select id from {schema}.work_queue
                          where  manifest_id = m.id and phase = 'parked' and not unknown_kind
                          limit  $3::bigint
                          for    no key update skip locked) w))
    returning 1
)
select (select count(*) from unparked) as cleaned, (select max(manifest_id) from parked having count(manifest_id) >= $2::bigint) as next

-- claim · background_job, ready → leased
-- Index: background_job_ready.
-- ?1 route, ?2 at most, ?3 node, ?4 lease in ms
delete from temp.picked;
insert into temp.picked (id, marked)
select id, 0 from background_job where route = ?1 and leased_by is null order by rank, id limit ?2;
update background_job
set    leased_by = ?3, claim_no = claim_no + 1, claimed_at = now_us(),
       started_at = iif(crashes = 0, now_us(), null), due_at = now_us() + ?4 * 1000
where  id in (select id from temp.picked);
select {claim} from background_job where id in (select p.id from temp.picked p) order by rank, id

-- claims_of_worker · all claims that a worker holds, as it got them
-- Reads every dispatched job: used only after an answer was lost.
-- ?1 node, ?2 at most
select {claim} from background_job where leased_by = ?1 order by id limit ?2

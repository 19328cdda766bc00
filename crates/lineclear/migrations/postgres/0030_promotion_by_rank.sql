-- 0030_promotion_by_rank · jobs for later, by how far their priority brings them forward, and within that by the moment they are due.
-- Promotion reads the first of each, which is the order of all work, however many have become due at once.
-- built concurrently

create index concurrently work_queue_urgency on {schema}.work_queue
    (((extract(epoch from due_at at time zone 'UTC') * 1000000)::bigint - rank), due_at) where phase = 'later';

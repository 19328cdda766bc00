-- 0030_promotion_by_rank · jobs for later, by how far their priority brings them forward, and within that by the moment they are due.
-- Promotion reads the first of each, which is the order of all work, however many have become due at once.

create index if not exists work_queue_urgency on work_queue ((due_at - rank), due_at) where phase = 'later';

-- dispatch_keys · the limit keys of the jobs that could go next; missing ones are inserted
-- ?1 route, ?2 groups, ?3 at most per group
delete from temp.word;
insert or ignore into temp.word (word)
select w.limit_key
from   json_each(?2) g
join   work_queue w on w.id in (select x.id from work_queue x
                                where  x.route = ?1 and x.phase = 'ready' and x.gated and x.group_id = g.value
                                order  by x.rank, x.id limit ?3)
where  w.limit_key is not null;
insert or ignore into temp.word (word)
select limit_key from (select limit_key from work_queue
                       where  route = ?1 and phase = 'ready' and gated and group_id is null
                       order  by group_id, rank, id limit ?3)
where  limit_key is not null;
insert into limit_key (key) select word from temp.word where true on conflict (key) do nothing;
select word as key from temp.word

-- list_bulk · a page of bulk operations, newest first
-- ?1 before this id, ?2 at most, ?3 only this one (null: all)
select {bulk_operation}
from   bulk_operation where id < ?1 and (?3 is null or id = ?3) order by id desc limit ?2

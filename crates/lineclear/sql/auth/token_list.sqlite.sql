-- token_list · a page of tokens, newest first
-- ?1 before this id, ?2 at most
select {token}, now_us() as now
from   access_token where id < ?1
order  by id desc limit ?2

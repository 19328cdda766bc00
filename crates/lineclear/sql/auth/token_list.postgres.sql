-- token_list · a page of tokens, newest first
-- $1 before this id, $2 at most
select {token}, now() as now
from   {schema}.access_token where id < $1::bigint
order  by id desc limit $2::bigint

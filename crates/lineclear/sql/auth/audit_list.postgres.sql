-- audit_list · a page of the audit log, newest first
-- A filter reads a window of rows at a time; seen_down_to is where the next window begins.
-- $1 before this id, $2 at most, $3 window, $4 who or null, $5 action or null, $6 not before, or null
with seen as materialized (
    select * from {schema}.audit where id < $1::bigint order by id desc limit $3::bigint
), found as (
    select id, at, who, token_id, action, target, request_id, status, finished_at, details
    from   seen
    where  ($4::text is null or who = $4::text) and ($5::text is null or action = $5::text)
    and    ($6::timestamptz is null or at >= $6::timestamptz)
    order  by id desc limit $2::bigint
), edge as (
    select case when count(*) = $3::bigint and ($6::timestamptz is null or min(at) >= $6::timestamptz) then min(id) end as seen_down_to
    from   seen
)
select found.*, edge.seen_down_to from edge left join found on true order by found.id desc

-- audit_list · a page of the audit log, newest first
-- A filter reads a window of rows at a time; seen_down_to is where the next window begins.
-- ?1 before this id, ?2 at most, ?3 window, ?4 who or null, ?5 action or null, ?6 not before, or null
with seen as materialized (
    select * from audit where id < ?1 order by id desc limit ?3
), found as (
    select id, at, who, token_id, action, target, request_id, status, finished_at, details
    from   seen
    where  (?4 is null or who = ?4) and (?5 is null or action = ?5) and (?6 is null or at >= ?6)
    order  by id desc limit ?2
), edge as (
    select iif(count(*) = ?3 and (?6 is null or min(at) >= ?6), min(id), null) as seen_down_to from seen
)
select found.*, edge.seen_down_to from edge left join found on true order by found.id desc

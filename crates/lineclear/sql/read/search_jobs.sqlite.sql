-- search_jobs · a page of jobs that a query finds, newest first: waiting, running, dead and over
--
-- Reads at most ?3 rows of each table that can hold a match, and filters those: a rare match in a long history
-- cannot make it read all of that. `seen_down_to` is where the next page begins (null: this was the last), `looked` how many rows
-- were read. Always one row at least. One statement, so that a moving job is not listed twice.
-- A name that ends in * is a prefix; an empty list and null do not filter.
-- ?1 before this id, ?2 at most, ?3 window, ?4 not before this id, look into: ?5 work_queue, ?6 background_job, ?7 dead_letter,
-- ?8 execution; ?9 states, ?10 origins; lists of which one must fit and of which none may: ?11 ?12 kinds, ?13 ?14 groups,
-- ?15 ?16 manifests, ?17 ?18 routes, ?19 ?20 nodes, ?21 ?22 parts of the error, ?23 ?24 ids; ?25 claims from, ?26 to;
-- ?27 µs of the last claim from, ?28 to; ?29 accepted since, ?30 before; ?31 ?32 tags, which stand in one text with spaces between;
-- ?33 ?34 families of errors, ?35 ?36 reasons of dead letters, ?37 of those only the ones that await a person
with waiting as materialized (
    select id, {shown_job},
           due_at, limit_key, phase, null as finished_at, null as node, last_error, null as progress, null as run_us, null as fingerprint, null as reason,
           {waiting_state} as state
    from   work_queue where ?5 and id < ?1 and id >= ?4 order by id desc limit ?3
),
handed as materialized (
    select id, {shown_job},
           was_due_at, limit_key, null, null, leased_by, last_error, progress, now_us() - coalesce(started_at, claimed_at), null, null,
           {dispatched_state}
    from   background_job where ?6 and id < ?1 and id >= ?4 order by id desc limit ?3
),
-- In two parts, each with its index: finding the few that await a person does not read the many that are resolved.
dead as materialized (
    select * from (select job_id, {shown_job},
                          dead_at, limit_key, null, dead_at, null, last_error, null, null, fingerprint, reason, 'dead'
                   from   dead_letter where ?7 and not ?37 and job_id < ?1 and job_id >= ?4 and status <> 'revived' order by job_id desc limit ?3)
    union all
    select * from (select job_id, {shown_job},
                          dead_at, limit_key, null, dead_at, null, last_error, null, null, fingerprint, reason, 'dead'
                   from   dead_letter where ?7 and ?37 and job_id < ?1 and job_id >= ?4 and status = 'awaiting' order by job_id desc limit ?3)
),
ended as materialized (
    select job_id, manifest_id, tick_at, origin, kind, null, group_id, tags, null, claim_no, null, null,
           created_at, due_at, null, null, finished_at, node, error_message, null,
           finished_at - coalesce(started_at, claimed_at), fingerprint, null,
           {ended_state}
    from   execution where final and ?8 and job_id < ?1 and job_id >= ?4 order by job_id desc limit ?3
),
bottom as materialized (
    select nullif(max((select iif(count(*) = ?3, min(id), 0) from waiting), (select iif(count(*) = ?3, min(id), 0) from handed),
                      (select iif(count(*) = ?3, min(job_id), 0) from dead),
                      (select iif(count(*) = ?3, min(job_id), 0) from ended)), 0) as id,
           (select count(*) from waiting) + (select count(*) from handed) + (select count(*) from dead)
           + (select count(*) from ended) as looked
),
seen as (
    select * from waiting union all select * from handed union all select * from dead union all select * from ended
),
-- Ids first: names are looked up only where they are needed.
found as materialized (
    select id from (
        select seen.*, (select g.name from manifest_group g where g.id = group_id) as group_name,
               (select m.key from manifest m where m.id = manifest_id) as manifest_key,
               (select n.name from node n where n.id = node) as node_name
        from   seen
    ) named
    where  id >= coalesce((select bottom.id from bottom), 0)
           and (?9 is null or state in (select value from json_each(?9)))
           and (?10 is null or origin in (select value from json_each(?10)))
           and {one_fits(kind, ?11)}
           and {none_fits(kind, ?12)}
           and {one_fits(group_name, ?13)}
           and {none_fits(group_name, ?14)}
           and {one_fits(manifest_key, ?15)}
           and {none_fits(manifest_key, ?16)}
           and {one_fits(route, ?17)}
           and {none_fits(route, ?18)}
           and {one_fits(node_name, ?19)}
           and {none_fits(node_name, ?20)}
           and (json_array_length(?21) = 0 or exists (select 1 from json_each(?21) p where instr(last_error, p.value) > 0))
           and (json_array_length(?22) = 0 or not exists (select 1 from json_each(?22) p where instr(last_error, p.value) > 0))
           and (json_array_length(?23) = 0 or id in (select value from json_each(?23)))
           and id not in (select value from json_each(?24))
           and claim_no >= ?25 and claim_no <= ?26
           and (?27 is null or run_us >= ?27 and run_us <= ?28)
           and (?29 is null or created_at >= ?29)
           and (?30 is null or created_at < ?30)
           and (json_array_length(?31) = 0
                or exists (select 1 from json_each(?31) p where ' ' || tags || ' ' glob '* ' || p.value || iif(p.value glob '*[*]', '', ' *')))
           and (json_array_length(?32) = 0 or not exists (select 1 from json_each(?32) p where ' ' || tags || ' ' glob '* ' || p.value || iif(p.value glob '*[*]', '', ' *')))
           and {one_fits(fingerprint, ?33)}
           and {none_fits(fingerprint, ?34)}
           and (json_array_length(?35) = 0 or reason in (select value from json_each(?35)))
           and (json_array_length(?36) = 0 or not exists (select 1 from json_each(?36) p where reason = p.value))
    order  by id desc
    limit  ?2
)
select bottom.id as seen_down_to, bottom.looked, seen.*,
       (select m.key from manifest m where m.id = seen.manifest_id) as manifest_key,
       (select g.name from manifest_group g where g.id = seen.group_id) as group_name,
       (select n.name from node n where n.id = seen.node) as node_name
from   bottom
left   join seen on seen.id in (select found.id from found)
order  by seen.id desc

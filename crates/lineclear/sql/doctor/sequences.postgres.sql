-- sequences · the number that each sequence gave last, and the highest id that is in use
--
-- A sequence that this role may not read is left out. Indexes: primary keys, dead_letter_job. Zero rows: none can be read.
with used (sequence, highest) as (
    select '{schema}.job_id',
           greatest((select max(id) from {schema}.work_queue), (select max(id) from {schema}.background_job),
                    (select max(job_id) from {schema}.dead_letter), (select max(job_id) from {schema}.execution))
    union all select pg_get_serial_sequence('{schema}.manifest', 'id'), (select max(id) from {schema}.manifest)
    union all select pg_get_serial_sequence('{schema}.manifest_group', 'id'), (select max(id) from {schema}.manifest_group)
    union all select pg_get_serial_sequence('{schema}.dead_letter', 'id'), (select max(id) from {schema}.dead_letter)
    union all select pg_get_serial_sequence('{schema}.node', 'id'), (select max(id) from {schema}.node)
    union all select pg_get_serial_sequence('{schema}.bulk_operation', 'id'), (select max(id) from {schema}.bulk_operation)
    union all select pg_get_serial_sequence('{schema}.access_token', 'id'), (select max(id) from {schema}.access_token)
    union all select pg_get_serial_sequence('{schema}.audit', 'id'), (select max(id) from {schema}.audit)
    union all select pg_get_serial_sequence('{schema}.lock_event', 'id'), (select max(id) from {schema}.lock_event)
)
select used.sequence::regclass::text as name, coalesce(s.last_value, 0) as last, coalesce(used.highest, 0) as highest
from   used
join   pg_sequences s on (quote_ident(s.schemaname) || '.' || quote_ident(s.sequencename))::regclass = used.sequence::regclass
where  has_sequence_privilege(used.sequence, 'usage') or has_sequence_privilege(used.sequence, 'select')
order  by name

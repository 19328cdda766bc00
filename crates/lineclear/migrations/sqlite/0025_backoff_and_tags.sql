-- 0025_backoff_and_tags · what claims and new jobs need of a manifest's spec has columns of its own.

-- How long to wait between tries: the JSON text of `retry` of the spec. Null: the kind decides.
alter table manifest add column backoff text;
-- The tags of its jobs, with a space between two. Null: none.
alter table manifest add column tags text;

-- A spec that cannot be read has neither, and stops nothing.
update manifest
set    backoff = iif(json_type(spec, '$.retry') = 'object', spec ->> '$.retry', null),
       tags = iif(json_type(spec, '$.tags') = 'array', (select group_concat(value, ' ') from json_each(spec, '$.tags')), null)
where  json_valid(spec);

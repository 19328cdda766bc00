-- 0025_backoff_and_tags · what claims and new jobs need of a manifest's spec has columns of its own.

-- How long to wait between tries: the JSON text of `retry` of the spec. Null: the kind decides.
alter table {schema}.manifest add column backoff text;
-- The tags of its jobs, with a space between two. Null: none.
alter table {schema}.manifest add column tags text;

-- A spec that cannot be read has neither, and stops nothing.
do $$
declare
    stored record;
    parsed json;
begin
    for stored in select m.id, m.spec from {schema}.manifest m where m.spec like '%"retry"%' or m.spec like '%"tags"%' loop
        begin
            parsed := stored.spec::json;
            update {schema}.manifest m
            set    backoff = case when json_typeof(parsed -> 'retry') = 'object' then parsed ->> 'retry' end,
                   tags = case when json_typeof(parsed -> 'tags') = 'array'
                               then (select string_agg(t.tag, ' ' order by t.nth)
                                     from json_array_elements_text(parsed -> 'tags') with ordinality as t (tag, nth)) end
            where  m.id = stored.id;
        exception when data_exception then
            null;
        end;
    end loop;
end
$$;

-- audit_begin · record actions before they are carried out, many at once; the outcome follows
-- Ids of one statement follow each other: there is one writer.
-- ?1 rows of who, token, action, target, request id
insert into audit (at, who, token_id, action, target, request_id)
select now_us(), value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 from json_each(?1) order by key;
select id from audit where id > last_insert_rowid() - json_array_length(?1) order by id

-- manifest_parents · set the parents of these manifests; parents that are not named are removed
-- ?1 children, ?2 rows of parent, child
delete from manifest_parent
where  child_id in (select value from json_each(?1))
       and not exists (select 1 from json_each(?2) i where i.value ->> 0 = parent_id and i.value ->> 1 = child_id);
insert into manifest_parent (parent_id, child_id)
select value ->> 0, value ->> 1 from json_each(?2)
where  true
on conflict (parent_id, child_id) do nothing

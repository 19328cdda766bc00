-- 0020_restamp · a group remembers that its waiting jobs are not done yet with its new priority, should the node that began it die.

-- Jobs up to this id have their rank. Null: all have.
alter table {schema}.manifest_group add column restamp_after bigint;

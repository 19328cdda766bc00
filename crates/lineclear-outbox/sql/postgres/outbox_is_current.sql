-- outbox_is_current · whether all tables exist; those of an earlier version are without the last one
select to_regclass('{schema}.outbox_message') is not null and to_regclass('{schema}.outbox_delivered') is not null
  and to_regclass('{schema}.outbox_dedup') is not null and to_regclass('{schema}.outbox_partition') is not null as made

-- outbox_exists · whether the tables exist
select to_regclass('{schema}.outbox_message') is not null and to_regclass('{schema}.outbox_delivered') is not null
  and to_regclass('{schema}.outbox_dedup') is not null as made

-- event_exists · whether the tables and functions exist
select to_regclass('{schema}.event') is not null and to_regclass('{schema}.subscription_checkpoint') is not null
  and to_regclass('{schema}.subscription_parked') is not null
  and to_regprocedure('{schema}.event_append(text, text, json, bigint, json, text)') is not null as made

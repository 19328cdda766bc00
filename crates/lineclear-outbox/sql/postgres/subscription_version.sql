-- subscription_version · the number of the next rebuild; no row: there is no such subscription, or its effects are elsewhere
-- $1 name
update {schema}.subscription_checkpoint set versions = versions + 1
where name = $1::text and active and kind = 'transaction'
returning versions::bigint as versions

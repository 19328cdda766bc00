-- subscription_cancel · ends a rebuild; the active one is as it was
-- $1 name
delete from {schema}.subscription_checkpoint where name = $1::text and not active returning version::bigint as version

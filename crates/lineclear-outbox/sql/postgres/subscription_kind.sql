-- subscription_kind · where the effects of a subscription are now
-- $1 name, $2 kind
update {schema}.subscription_checkpoint set kind = $2::text where name = $1::text and kind <> $2::text returning version

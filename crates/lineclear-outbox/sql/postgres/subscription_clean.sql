-- subscription_clean · parked events of versions that are gone
-- $1 name
delete from {schema}.subscription_parked p
where p.name = $1::text and not exists (select from {schema}.subscription_checkpoint c where c.name = p.name and c.version = p.version)
returning p.id

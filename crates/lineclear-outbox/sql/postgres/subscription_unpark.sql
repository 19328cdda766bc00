-- subscription_unpark · parked events behind the checkpoint: they are handled again
-- $1 name
delete from {schema}.subscription_parked p using {schema}.subscription_checkpoint c
where c.name = $1::text and c.active and p.name = c.name and p.version = c.version and p.position > c.position
returning p.id

-- subscription_retire · removes the active checkpoint, if the rebuild has handled as much
-- $1 name, $2 version of the rebuild
delete from {schema}.subscription_checkpoint c using {schema}.subscription_checkpoint r
where c.name = $1::text and c.active and r.name = c.name and r.version = $2::integer and not r.active and r.swaps
  and r.state = 'running' and r.position >= c.position
returning c.version

-- has_room · group `g` is enabled, and fewer jobs of it are active than its limit allows
g.enabled
and (g.max_active is null or g.max_active > (select count(*) from {schema}.background_job where group_id = g.id))

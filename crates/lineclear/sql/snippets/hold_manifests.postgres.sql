-- hold_manifests · manifests whose jobs were buried (`gone`) are held, if they say so; those whose states are locked (`states`)
update {schema}.manifest set held = true
where  id = any (array (
           select m.id from {schema}.manifest m
           where  m.on_dead = 'hold'
                  and m.id = any (array (select s.manifest_id from states s join gone g on g.manifest_id = s.manifest_id
                                         where  g.verdict = 'bury'))
           order  by m.id for no key update))

-- dead_letter_fits(kind_is, manifest_is, group_is, fingerprint_is, reason_is, before) · a dead letter matches a filter; null asks nothing
({kind_is} is null or kind = {kind_is})
and ({manifest_is} is null or manifest_id = (select m.id from {schema}.manifest m where m.key = {manifest_is}))
and ({group_is} is null or group_id = (select g.id from {schema}.manifest_group g where g.name = {group_is}))
and ({fingerprint_is} is null or fingerprint = {fingerprint_is})
and ({reason_is} is null or reason = {reason_is})
and ({before} is null or dead_at < {before})

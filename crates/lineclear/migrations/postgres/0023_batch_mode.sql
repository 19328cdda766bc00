-- 0023_batch_mode · a bulk operation spreads its jobs over a while, or lets one go first and the rest only if that one completes.

alter table {schema}.batch add column mode text not null default 'all'
    constraint batch_mode check (mode in ('all', 'spread', 'canary'));
-- Of spread: the time over which its jobs become due.
alter table {schema}.batch add column over_ms bigint;
-- When somebody began with it; of a canary: when its one job was let go.
alter table {schema}.batch add column begun_at timestamptz;
-- The job that goes first. Another one than was found if that one was over: it is run again as a new job.
alter table {schema}.batch add column canary_job_id bigint;
-- The canary is looked at again then; null: nobody waits for it.
alter table {schema}.batch add column look_at timestamptz;
-- Why it stopped; null: it did not, or a person said so.
alter table {schema}.batch add column stopped_because text;

-- 0021_tags · history keeps the tags of jobs, so that they can be found by them.

alter table execution add column tags text;

-- 0011_job_key · what a unique key was taken for, so that the same key with another body is noticed.

-- Of kind and input. Null: not known, because the key was taken before this column was there.
alter table job_key add column body_hash integer;

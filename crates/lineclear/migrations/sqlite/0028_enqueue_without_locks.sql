-- 0028_enqueue_without_locks · nothing to do: SQLite has no function `enqueue`.
select 1;

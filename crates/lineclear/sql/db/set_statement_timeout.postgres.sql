-- set_statement_timeout · limit how long the statements of this transaction may take, and make them use indexes
-- Statistics are missing after a burst, and PostgreSQL's planner would sort a whole lane to read its first rows: 500 ms instead
-- of 7 with a million jobs. Bound to the transaction: behind a pooler, the next transaction is not affected.
-- $1 such as '2s', $2 whether it must use indexes: false for reads of the catalogs, which are small
select set_config('statement_timeout', $1::text, true) as within,
       set_config('enable_bitmapscan', case when $2::boolean then 'off' else current_setting('enable_bitmapscan') end, true) as bitmaps,
       set_config('enable_seqscan', case when $2::boolean then 'off' else current_setting('enable_seqscan') end, true) as scans

-- set_statement_timeout · what follows in this transaction ends in time, whatever it meets, and goes by its indexes
-- Statistics are missing after a burst, and the planner would sort a whole line to see its beginning: 500 ms instead of 7 with a
-- million jobs. Bound to the transaction: through a pool, the next one is as before.
-- $1 such as '2s', $2 whether it must go by indexes: not where catalogues are read, which are small
select set_config('statement_timeout', $1::text, true) as within,
       set_config('enable_bitmapscan', case when $2::boolean then 'off' else current_setting('enable_bitmapscan') end, true) as bitmaps,
       set_config('enable_seqscan', case when $2::boolean then 'off' else current_setting('enable_seqscan') end, true) as scans

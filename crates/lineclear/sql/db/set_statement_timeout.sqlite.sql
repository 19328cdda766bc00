-- set_statement_timeout · what follows in this transaction ends in time, whatever it meets, and goes by its indexes
-- Nothing of ours runs for long in a file: what is looked at is bounded by numbers.
-- ?1 such as '2s', ?2 whether it must go by indexes
select ?1 as within, ?2 as bitmaps, ?2 as scans

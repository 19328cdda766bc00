-- set_statement_timeout · limit how long the statements of this transaction may take, and make them use indexes
-- A no-op: SQLite has no such setting, and each statement reads a bounded number of rows.
-- ?1 such as '2s', ?2 whether it must use indexes
select ?1 as within, ?2 as bitmaps, ?2 as scans

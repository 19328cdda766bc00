-- within · what follows in this transaction ends in time, whatever it meets
-- Nothing of ours runs for long in a file: what is looked at is bounded by numbers.
-- ?1 such as '2s'
select ?1 as within

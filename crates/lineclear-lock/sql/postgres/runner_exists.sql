-- runner_exists · whether the table of runners exists
select to_regclass('{schema}.lock_runner') is not null as made

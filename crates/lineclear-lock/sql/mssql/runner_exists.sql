-- runner_exists · whether the table of runners exists
select case when object_id('lock_runner') is null then 0 else 1 end as made

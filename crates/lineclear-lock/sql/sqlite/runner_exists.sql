-- runner_exists · whether the table of runners exists
select count(*) as made from sqlite_master where name = 'lock_runner'

-- runner_exists · whether the table of runners exists
select count(*) as made from information_schema.tables where table_schema = database() and table_name = 'lock_runner'

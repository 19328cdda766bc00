-- 0029_compatible_from · each migration records the oldest program that may work on it: the number of the migration that it must know.
-- 0: any, because the migration only adds. Null, of migrations before this one: only programs that know the migration itself.
alter table migration add column compatible_from integer;

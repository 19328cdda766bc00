-- durable · the commit waits until it is written, even if the server's default is not to wait
-- A claim that a crash of the server undoes would be given out again, under the same number.
case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end

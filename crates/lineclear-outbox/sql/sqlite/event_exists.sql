-- event_exists · whether the tables exist
select count(*) = 5 as made from sqlite_master
where name in ('lineclear_event', 'lineclear_event_stream', 'lineclear_subscription_checkpoint', 'lineclear_subscription_checkpoint_role',
  'lineclear_subscription_parked')

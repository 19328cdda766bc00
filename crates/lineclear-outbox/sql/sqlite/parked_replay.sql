-- parked_replay · parked events are handled again
-- ?1 name, ?2 ids
update lineclear_subscription_parked set replays = 1 where name = ?1 and id in (select value from json_each(?2)) returning id

-- parked_discard · deletes parked events; the events themselves stay in the log
-- ?1 name, ?2 ids
delete from lineclear_subscription_parked where name = ?1 and id in (select value from json_each(?2)) returning id

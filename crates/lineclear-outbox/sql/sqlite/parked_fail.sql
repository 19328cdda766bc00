-- parked_fail · a parked event failed again, and stays
-- ?1 id, ?2 attempts to charge, ?3 error
update lineclear_subscription_parked set attempts = attempts + ?2, last_error = ?3, replays = 0 where id = ?1 returning id

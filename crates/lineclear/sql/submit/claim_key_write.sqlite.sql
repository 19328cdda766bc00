-- claim_key_write · the key that signs the tokens of claims, unless there is one
-- ?1 secret
insert into claim_key (id, secret) values (1, ?1) on conflict (id) do nothing

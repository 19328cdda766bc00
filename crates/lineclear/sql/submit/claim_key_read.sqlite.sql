-- claim_key_read · the key that signs the tokens of claims
-- Zero rows: no token was ever issued.
select secret from claim_key where id = 1

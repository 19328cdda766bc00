-- 0015_idempotency_key · requests that made something, and what they were answered, so that asking again changes nothing.

create table {schema}.idempotency_key (
    -- Whose key it is: two clients may choose the same.
    principal text not null,
    key       text not null,
    -- Method and path.
    request   text not null,
    body_hash text not null,
    response  text not null,
    until     timestamptz not null,
    constraint idempotency_key_once primary key (principal, key)
);
create index idempotency_key_old on {schema}.idempotency_key (until);

-- 0013_access · who may do what, and who did

create table access_token (
    id           integer primary key autoincrement,
    name         text not null,
    prefix       text not null constraint access_token_prefix unique, -- the part of the token that is no secret
    hash         text not null, -- SHA-256 of the part that is, in hexadecimal
    scopes       text not null,
    created_at   integer not null,
    created_by   text not null,
    expires_at   integer,
    last_used_at integer, -- to the minute
    revoked_at   integer
) strict;
create unique index access_token_name on access_token (name) where revoked_at is null;

-- Browsers that logged in with a token.
create table browser_session (
    hash       text primary key, -- SHA-256 of what the cookie holds, in hexadecimal
    token_id   integer not null,
    created_at integer not null,
    expires_at integer not null
) strict;
create index browser_session_token on browser_session (token_id);
create index browser_session_expires on browser_session (expires_at);

-- What people and their programs changed. Rows are added, get their outcome once, and go when they are old.
create table audit (
    id          integer primary key autoincrement,
    at          integer not null,
    who         text not null, -- token:NAME, session:NAME, proxy:USER, cli:USER, or local
    token_id    integer,
    action      text not null,
    target      text not null,
    request_id  text not null,
    status      integer, -- null: not over, or whoever did it died with it
    finished_at integer,
    details     text
) strict;
create index audit_at on audit (at);

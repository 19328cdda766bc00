-- 0033_submitters · kinds whose jobs leave their nodes: for an HTTP worker, a worker that polls, or a system of the user's

-- Where the jobs of a kind go that name no route. Kinds that nodes run themselves have no row.
create table {schema}.kind_route (
    kind  text primary key,
    route text not null
);

-- The name of an accepted job in the system that runs it.
alter table {schema}.background_job add column external_id text;

-- Kinds that a token of scope `worker` is bound to, as a JSON list. Null: all.
alter table {schema}.access_token add column kinds text;

-- The key that signs the tokens of claims. All nodes share it.
create table {schema}.claim_key (
    id     bigint primary key check (id = 1),
    secret text not null
);

create or replace function {schema}.enqueue(
    kind       text,
    input      text        default '{}',
    due_at     timestamptz default now(),
    priority   integer     default 0,
    group_name text        default null,
    unique_key text        default null
) returns bigint
language plpgsql
as $function$
#variable_conflict use_variable
declare
    job    bigint := nextval('{schema}.job_id');
    owner  bigint;
    holds  boolean;
    of     record;
begin
    if kind is null or kind !~ '^[a-z0-9][a-z0-9._-]{0,127}$' then
        raise exception 'lineclear: % is not the name of a kind', quote_nullable(kind)
        using errcode = '22023', hint = 'Use a-z, 0-9 and, after the first character, ''.'', ''_'' or ''-''.';
    end if;
    if input is null or octet_length(input) > 262144 then
        raise exception 'lineclear: an input has at most 262144 bytes and is not null' using errcode = '22023';
    end if;
    begin
        perform input::json;
    exception when others then
        raise exception 'lineclear: the input is not JSON' using errcode = '22023', hint = 'Pass a JSON text such as {"id": 7}.';
    end;
    if priority is null or priority not between 0 and 31 then
        raise exception 'lineclear: priority % is not between 0 and 31', priority using errcode = '22023';
    end if;
    if due_at is null or due_at < timestamptz 'epoch' then
        raise exception 'lineclear: a job cannot be due before 1970' using errcode = '22023';
    end if;
    if unique_key = '' or octet_length(unique_key) > 255 then
        raise exception 'lineclear: a unique key has 1 to 255 bytes' using errcode = '22023';
    end if;
    select g.id, g.priority, g.gated into of from {schema}.manifest_group g where g.name = group_name;
    if group_name is not null and of.id is null then
        raise exception 'lineclear: there is no group %', group_name
        using errcode = '22023', hint = 'Declare it before jobs use it.';
    end if;

    if unique_key is not null then
        loop
            -- Without a lock on the key of another job: this transaction may last, and that job must be able to end meanwhile.
            select k.job_id,
                   k.until > now()
                   or exists (select from {schema}.work_queue     w where w.id = k.job_id)
                   or exists (select from {schema}.background_job b where b.id = k.job_id)
                   or exists (select from {schema}.dead_letter    d where d.job_id = k.job_id and d.status = 'awaiting')
            into   owner, holds
            from   {schema}.job_key k where k.key = unique_key;
            if owner is not null and holds then
                return owner;
            end if;
            if owner is not null then
                delete from {schema}.job_key k where k.key = unique_key and k.job_id = owner;
            end if;
            -- Waits for a rival that is just taking the key; then it is ours, or its job is the answer.
            insert into {schema}.job_key (key, job_id) values (unique_key, job) on conflict (key) do nothing;
            exit when found;
        end loop;
    end if;

    insert into {schema}.work_queue
           (id, origin, fresh, kind, route, input, group_id, priority, due_at, phase, rank, gated, unique_key)
    values (job, 'adhoc', false, kind, coalesce((select r.route from {schema}.kind_route r where r.kind = enqueue.kind), 'main'),
            case when octet_length(input) <= 512 then input end, of.id, priority, due_at,
            case when due_at > now() then 'later' else 'ready' end,
            (extract(epoch from due_at) * 1000000)::bigint - (priority + coalesce(of.priority, 0)) * 600000000::bigint,
            coalesce(of.gated, false), unique_key);
    if octet_length(input) > 512 then
        insert into {schema}.job_payload (job_id, input) values (job, input);
    end if;
    return job;
end
$function$;

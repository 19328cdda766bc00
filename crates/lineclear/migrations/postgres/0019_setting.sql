-- 0019_setting · what operators changed while nodes run: sparse, over what the nodes were started with.

create table {schema}.setting (
    key        text   constraint setting_once primary key,
    -- Null: it was changed, and is as the nodes were started again. The row stays, so that versions only grow.
    value      text,
    version    bigint not null,
    updated_at timestamptz not null default now(),
    updated_by text   not null
);

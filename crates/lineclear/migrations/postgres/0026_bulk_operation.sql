-- 0026_bulk_operation · the table of bulk operations is named after them; a batch is many jobs in one call.

alter table {schema}.batch rename to bulk_operation;
alter sequence {schema}.batch_id_seq rename to bulk_operation_id_seq;
alter index {schema}.batch_pkey rename to bulk_operation_pkey;
alter index {schema}.batch_open rename to bulk_operation_open;
alter table {schema}.bulk_operation rename constraint batch_action to bulk_operation_action;
alter table {schema}.bulk_operation rename constraint batch_status to bulk_operation_status;
alter table {schema}.bulk_operation rename constraint batch_mode to bulk_operation_mode;

-- The instance that a notice is about; null: it is about none.
alter table notices add column instance_id uuid;

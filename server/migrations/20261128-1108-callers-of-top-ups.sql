-- The key or the member that has begun a top-up, and whether as an admin: the most within an hour are counted by both. Null: nobody did,
-- as for auto-pay and for the links that mend it.
alter table payments add column caller uuid, add column is_by_admin boolean not null default false;

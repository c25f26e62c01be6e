-- Where a driver has its machines, if that is one place: processes of another place would not find them, and count them as lost. A place
-- that was not seen for ten minutes gives way to another.
create table instance_places (
  driver text primary key,
  place text not null,
  seen_at timestamptz not null
);

-- The timelines on which the database was seen, by the first process that saw each. PostgreSQL begins another one when a standby is
-- promoted or a backup is restored. Such a server may have been started long ago, and still owners of locks have yet to come back to it.
create table timelines (
  -- The database's own number and the server's timeline, such as `16384/00000002`.
  name text primary key,
  seen_at timestamptz not null
);

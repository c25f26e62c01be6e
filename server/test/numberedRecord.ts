/** Leaves in an empty database what tells one of the time before the baseline: a record of numbered migrations. */
export const NUMBERED_RECORD = `
  create table schema_migrations (
    number integer primary key, name text not null, sha256 text not null, applied_at timestamptz not null);
  insert into schema_migrations (number, name, sha256, applied_at)
  values (1, '0001-spine.sql', repeat('ab', 32), '2026-07-01T00:00:00Z')`

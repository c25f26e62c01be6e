-- When a key was last used, to within two minutes: a row is written at most once a minute. A key without a row was never used since
-- this file was applied. The table is apart from `api_keys`, so that no revocation waits for it.
create table key_uses (key_id uuid primary key, used_at timestamptz not null) with (fillfactor = 70);

-- Answers kept for requests that bring an Idempotency-Key. One row an API key and Idempotency-Key: an attempt while
-- `status` is null, an answer to be given again afterwards.
create table idempotent_attempts (
  key_id uuid not null,
  -- SHA-256 of the client's Idempotency-Key.
  key_hash bytea not null,
  -- SHA-256 over the request: the same key with another one is refused.
  fingerprint bytea not null,
  -- Names this attempt for ever. Whoever writes the answer names it, so that nobody ends an attempt that is another's.
  attempt uuid not null,
  -- The process slot that works on it. An attempt is dead when its slot's lock is free.
  slot integer not null,
  expires_at timestamptz not null,
  status integer,
  content_type text,
  operation_id text,
  -- Encrypted with the installation's data key; null where the body is a file of the data directory, named by the attempt.
  body bytea,
  primary key (key_id, key_hash)
) with (fillfactor = 70);

create index idempotent_attempts_by_expiry on idempotent_attempts (expires_at);

-- Finds the attempts under way of a slot; nothing that is answered is in it.
create index idempotent_attempts_open on idempotent_attempts (slot) where status is null;

-- For the sweep of files: which of them belong to an attempt.
create index idempotent_attempts_by_attempt on idempotent_attempts (attempt);

-- Which data key the stored answers are encrypted with: one row, written by the first start.
create table data_keys (
  is_only boolean primary key check (is_only),
  fingerprint text not null,
  first_seen_at timestamptz not null
);

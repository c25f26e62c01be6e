-- Work that is due later and has no table of its own, such as mail. Who wants something done inserts a row in the
-- transaction of what it follows from; runners of all processes take rows up (`server/src/jobs/README.md`).
create table jobs (
  id uuid primary key default gen_random_uuid(),
  -- Names the handler. Ours, never a client's.
  kind text not null check (kind <> ''),
  -- Organizations have their turn within a kind, so that none keeps another waiting.
  organization_id uuid not null,
  -- As the kind's schema has it; emptied once the job is done.
  payload jsonb not null,
  -- Within the kind and the organization: while a row with it is kept, another one is not inserted.
  unique_key text,
  -- waiting: due at `due_at`. ready: due. running: a process works on it until `due_at`, when it counts as dead.
  -- done, dead: over, since `ended_at`; a dead one failed at every attempt.
  state text not null default 'waiting' check (state in ('waiting', 'ready', 'running', 'done', 'dead')),
  due_at timestamptz not null,
  -- Times that it was taken up, without those that were given back.
  attempts integer not null default 0,
  -- Names the last taking. A result counts only with it.
  lease uuid,
  -- Why the last attempt failed, in our words.
  error text,
  ended_at timestamptz,
  check ((state in ('done', 'dead')) = (ended_at is not null))
);
create index jobs_ready on jobs (kind, organization_id, due_at, id) where state = 'ready';
create index jobs_due on jobs (due_at) where state in ('waiting', 'running');
create index jobs_ended on jobs (ended_at) where ended_at is not null;
create unique index jobs_once on jobs (kind, organization_id, unique_key) where unique_key is not null;

-- Mails are jobs of the kind `mail` from here on.
drop table notice_mails;

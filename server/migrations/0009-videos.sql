-- Videos: jobs that outlive their request, the money that is set aside for them, and their charges. Processes of the
-- version before may run on beside it, but do not see what videos hold: stop them before the first video is asked for.

-- Money set aside for work that outlives its request: against the balance alone, in no process's allotment. A row goes
-- with the release of what it holds.
create table holds (
  id uuid primary key,
  organization_id uuid not null references accounts (organization_id),
  amount_microcents bigint not null check (amount_microcents > 0)
);
create index holds_by_organization on holds (organization_id) include (amount_microcents);

-- The sum of this account's `holds`, changed by the statement's neighbour in one transaction: what is guarded is on this row.
alter table accounts add column held_microcents bigint not null default 0 check (held_microcents >= 0);

alter table charges drop constraint charges_modality_check;
alter table charges
  add constraint charges_modality_check check (modality in ('embedding', 'image', 'video')),
  -- Of videos: the seconds that are billed.
  add column video_seconds integer check (video_seconds > 0);

alter table usage_rollups add column video_seconds bigint not null default 0;

create table videos (
  -- Also the id of its charge and of its hold, so that there is never more than one of either.
  id uuid primary key,
  organization_id uuid not null,
  key_id uuid not null,
  -- Also the instant of the charge, whenever it comes about.
  created_at timestamptz not null,
  model text not null,
  tier text not null,
  -- The price that was in force then.
  price_hash bytea not null,
  second_microcents bigint not null check (second_microcents >= 0),
  -- Deleted with the terminal state.
  prompt text,
  -- Asked for; of a completed job the billed ones.
  seconds integer not null check (seconds > 0),
  size text,
  -- 'submitting': an upstream is being asked to take it. To the customer that is 'queued'.
  status text not null check (status in
    ('queued', 'submitting', 'in_progress', 'completed', 'failed', 'cancelled', 'expired')),
  progress integer not null default 0 check (progress between 0 and 100),
  -- Counts who has taken the job up: whoever writes names it, so that nobody writes for another.
  attempt integer not null default 0,
  -- Written before the request is sent: how the upstream is told of it, and which one.
  submission uuid,
  target_upstream text,
  target_model text,
  -- The upstream's own id of it, as soon as it is known.
  upstream_job text,
  started_at timestamptz,
  -- Times in a row that the upstream did not know the job, or sent a file that broke off.
  misses integer not null default 0,
  completed_at timestamptz,
  expires_at timestamptz,
  cost_microcents bigint check (cost_microcents >= 0),
  error text check (error in
    ('upstream_error', 'upstream_timeout', 'content_policy', 'invalid_output', 'internal_error')),
  -- The name of its file while there is one.
  artifact text,
  artifact_bytes bigint,
  -- When somebody has to look at it again: an upstream to ask, work to be cancelled, a time to expire. Who does sets it
  -- ahead first, so that nobody else looks meanwhile, and somebody does if nothing more is heard. Null: never.
  due_at timestamptz
) with (fillfactor = 70);

-- Pages of GET /videos.
create index videos_by_organization on videos (organization_id, created_at, id);
-- The next job of the next organization of a model, however many wait: one look into this index.
create index videos_queued on videos (model, organization_id, id) where status = 'queued';
-- How many are under way: few, since each model has its bound.
create index videos_under_way on videos (model) where status in ('submitting', 'in_progress');
create index videos_due on videos (due_at) where due_at is not null;
-- How long jobs of a model took lately.
create index videos_completed on videos (model, completed_at) where completed_at is not null;
create index videos_by_artifact on videos (artifact) where artifact is not null;

-- One row a model that ever had a job: whoever starts jobs of the model holds its lock.
create table video_queues (
  model text primary key,
  -- Whose turn was last. The next one's id comes after it, or is the lowest.
  last_organization_id uuid not null,
  -- No upstream took a job: so long nobody is asked again.
  due_at timestamptz not null,
  failures integer not null default 0
) with (fillfactor = 70);

-- Machines that organizations rent by the second (`server/src/instances/README.md`), and the operations that make and delete
-- them (`server/src/operations/README.md`).

-- An asynchronous operation. The transaction that accepts it writes the row. A row in an end state never changes again.
create table operations (
  id uuid primary key, organization_id uuid not null,
  principal_id uuid not null, -- The API key or the member that asked for it. Another key does not see it.
  kind text not null check (kind in ('instance.create', 'instance.delete')),
  state text not null check (state in ('pending', 'in_progress', 'succeeded', 'failed', 'cancelled')),
  resource_id uuid not null,
  error_detail text, -- Only of failed ones: why, in our words.
  result jsonb, -- Only of succeeded ones.
  created_at timestamptz not null, updated_at timestamptz not null, completed_at timestamptz,
  check ((state in ('succeeded', 'failed', 'cancelled')) = (completed_at is not null)),
  check ((state = 'failed') = (error_detail is not null))
);
create index operations_of_resource on operations (resource_id, kind);
create index operations_by_end on operations (completed_at) where completed_at is not null;

-- An instance. Its state and its due time change in one statement, which names the states that it may start from.
create table instances (
  id uuid primary key, -- Also the id of its hold. The driver knows it by a name that is made of it.
  organization_id uuid not null,
  principal_id uuid not null, -- The API key or the member that created it; its charges carry it.
  name text not null, app text not null, model text, gpu_type text not null,
  gpu_count integer not null check (gpu_count > 0), disk_gb integer not null check (disk_gb >= 0),
  price_hash bytea not null, -- The price that was in force at `created_at`.
  hour_microcents bigint not null check (hour_microcents >= 0), -- By that price, an hour of the whole instance.

  state text not null check (state in ('creating', 'running', 'terminating', 'terminated', 'failed')),
  reason text, -- Why it ended. Null: it has not.
  -- Counts how often a process took it up. Writers name it, so that no process writes for another.
  attempt integer not null default 0,
  due_at timestamptz, -- When somebody must ask the driver about it. Null: never.
  misses integer not null default 0, -- How many times in a row the driver gave no answer.
  warnings jsonb not null default '[]',

  created_at timestamptz not null, running_at timestamptz, ended_at timestamptz, -- It costs nothing from `ended_at` on.
  app_url text, terminal_url text,
  missing_since timestamptz, -- The driver's last list did not have it. Null: it had.

  -- The seconds of its life, counted from `created_at`, up to which it is settled; the money that is held covers those
  -- from here up to `held_second`.
  settled_second bigint not null default 0 check (settled_second >= 0),
  held_second bigint not null check (held_second >= 0),
  bill_due_at timestamptz, -- When its seconds are to be charged and the next ones held. Null: it has ended.
  short_since timestamptz, -- Since when no further money could be held. Null: it could.
  check ((state in ('creating', 'running')) = (ended_at is null)),
  check ((state in ('creating', 'running')) = (bill_due_at is not null))
) with (fillfactor = 70);
create index instances_by_organization on instances (organization_id, created_at desc, id desc);
create index instances_live on instances (organization_id) where state in ('creating', 'running');
create index instances_by_disk on instances (gpu_type) where state in ('creating', 'running', 'terminating');
create index instances_due on instances (due_at) where due_at is not null;
create index instances_bill_due on instances (bill_due_at) where bill_due_at is not null;

-- When a driver was last asked for the list of all that runs, so that one process asks at a time.
create table instance_lists (
  driver text primary key,
  listed_at timestamptz not null
);

-- The sums of an instance's charges of one hour, written by the statement that posts them. Rows stay when retention drops the
-- charges.
create table instance_hours (
  organization_id uuid not null, hour timestamptz not null, instance_id uuid not null, gpu_type text not null,
  requests bigint not null, gpu_seconds bigint not null, cost_microcents bigint not null,
  primary key (organization_id, hour, instance_id)
) with (fillfactor = 70);

-- Only of instances: whose minute a charge is, the GPU, and the seconds of the instance's life that it is for: so many, from
-- which on. The check holds for all older rows, since it allows more than the one before.
alter table charges drop constraint charges_modality_check;
alter table charges add constraint charges_modality_check
  check (modality in ('embedding', 'image', 'video', 'instance')) not valid;
alter table charges add column instance_id uuid, add column gpu_type text, add column gpu_count integer,
  add column instance_from_second bigint, add column instance_seconds integer;

-- Of an organization's live instances: the sum of their holds, which is part of `held_microcents`, and the sum of their hourly
-- prices.
alter table accounts add column instances_held_microcents bigint not null default 0 check (instances_held_microcents >= 0),
  add column burn_microcents bigint not null default 0 check (burn_microcents >= 0);

alter table notices drop constraint notices_kind_check;
alter table notices add constraint notices_kind_check check (kind in
  ('daily', 'monthly', 'new_account', 'low_balance', 'auto_pay_off', 'auto_pay_authentication', 'instance_ending'));

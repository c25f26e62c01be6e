-- Webhooks: who wants to be told of what, what happened, and what is on its way to whom.

create table webhook_endpoints (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  url text not null,
  -- The list that it was created with is what counts: types added later never reach it.
  event_types text[] not null,
  enabled boolean not null,
  -- The signing secret, encrypted with the installation's data key.
  secret bytea not null,
  -- The idempotent attempt whose kept answer shows the secret: it is deleted with the endpoint.
  attempt uuid,
  created_at timestamptz not null
);

create index webhook_endpoints_by_organization on webhook_endpoints (organization_id, created_at, id);

-- Written in the transaction of what happened, and never changed. Kept for 30 days.
create table webhook_events (
  id uuid primary key,
  organization_id uuid not null,
  type text not null,
  -- The bytes that are sent and signed, as text in UTF-8.
  body text not null,
  created_at timestamptz not null,
  -- The writing transaction. Who follows the events reads in this order, up to the oldest transaction that still runs, and so
  -- misses none that commits late.
  written_by xid8 not null
);

create index webhook_events_in_order on webhook_events (organization_id, written_by, id);
create index webhook_events_by_age on webhook_events (created_at);

-- One row an event and endpoint subscribed to it, written with the event. No foreign keys: what was delivered stays in the
-- log when its endpoint is deleted. Kept for 30 days.
create table webhook_deliveries (
  id uuid primary key,
  organization_id uuid not null,
  endpoint_id uuid not null,
  event_id uuid not null,
  state text not null check (state in ('pending', 'delivered', 'dead')),
  -- Attempts that have ended, over all rounds; a round is the schedule gone through once, begun again by a redelivery.
  attempts integer not null,
  attempts_before_round integer not null,
  -- When the next attempt is due; null once it is over.
  due_at timestamptz,
  -- Nobody has told its endpoint's turn of it yet.
  is_new boolean not null,
  created_at timestamptz not null,
  unique (event_id, endpoint_id)
) with (fillfactor = 70);

create index webhook_deliveries_new on webhook_deliveries (created_at) where is_new;
create index webhook_deliveries_due on webhook_deliveries (endpoint_id, due_at) where state = 'pending' and not is_new;
create index webhook_deliveries_listed on webhook_deliveries (organization_id, created_at desc, id desc);
create index webhook_deliveries_by_age on webhook_deliveries (created_at);

-- One row an endpoint: its place in the queue. Workers take turns, not deliveries, so that a long queue of one endpoint
-- keeps no other waiting.
create table webhook_turns (
  endpoint_id uuid primary key references webhook_endpoints (id) on delete cascade,
  -- When the first of its deliveries is due; while a worker has the turn, when that worker counts as dead; null: nothing to do.
  due_at timestamptz,
  -- Names the taking of the turn. Results count only with it.
  lease uuid,
  -- Its last attempt timed out or took long: it goes to the slow lane.
  is_slow boolean not null
) with (fillfactor = 50);

create index webhook_turns_due on webhook_turns (is_slow, due_at) where due_at is not null;

create table webhook_attempts (
  delivery_id uuid not null,
  -- From 1.
  number integer not null,
  started_at timestamptz not null,
  latency_ms integer not null,
  -- Null: no answer came, and `failure` says why.
  status integer,
  failure text,
  -- The first 4 KiB.
  answer bytea,
  primary key (delivery_id, number)
);

create index webhook_attempts_by_age on webhook_attempts (started_at);

-- The whole of the first schema. Money is in micro-cents (1e-6 cent). Time always comes from the caller: no now() here.

create table organizations (
  id uuid primary key,
  name text not null unique,
  -- 'established': made by an operator. 'new': registered itself or made with --new (rule K2).
  standing text not null check (standing in ('established', 'new')),
  created_at timestamptz not null,
  first_paid_at timestamptz
);

create table api_keys (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  -- SHA-256 of the whole key. The key itself is stored nowhere.
  hash bytea not null unique check (octet_length(hash) = 32),
  scopes text not null,
  admin boolean not null,
  created_at timestamptz not null,
  expires_at timestamptz,
  revoked_at timestamptz
);
create index api_keys_by_organization on api_keys (organization_id, created_at);

-- A gateway process owns its slot's allotments for as long as it holds the session advisory lock of the slot. Slots are
-- small and used again, so that rollups keyed by slot stay few.
create table processes (
  slot integer primary key,
  started_at timestamptz not null
);

-- One row an organization. `balance` is credits less the charges folded in so far; `allotted` is what processes may
-- still spend without asking: the sum of `allotments.granted`. Both change in the same guarded statement.
create table accounts (
  organization_id uuid primary key references organizations (id),
  balance_microcents bigint not null,
  allotted_microcents bigint not null default 0 check (allotted_microcents >= 0)
) with (fillfactor = 70);

-- A process's share of an account. `granted` is reserved on the account; `spent` counts charges posted by the process
-- and not yet folded into `accounts.balance`.
create table allotments (
  organization_id uuid not null,
  slot integer not null,
  granted_microcents bigint not null check (granted_microcents >= 0),
  spent_microcents bigint not null,
  primary key (organization_id, slot)
) with (fillfactor = 70);

-- Credits, refunds, adjustments. Append-only; each movement has a unique source, so that none is posted twice.
create table ledger_entries (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  amount_microcents bigint not null check (amount_microcents <> 0),
  kind text not null check (kind in ('credit', 'refund', 'adjustment', 'charges')),
  source text not null unique,
  note text,
  posted_at timestamptz not null
);
create index ledger_entries_by_organization on ledger_entries (organization_id, posted_at desc);

-- Every price that was ever in force, by the SHA-256 of its canonical JSON: what recomputes a charge.
create table price_versions (
  hash bytea primary key check (octet_length(hash) = 32),
  price jsonb not null,
  first_seen_at timestamptz not null
);

-- A charge and its usage in one row. Partitioned by the UTC day of admission, which is fixed together with the id, so
-- that a row tried again on the other side of midnight meets itself. No foreign keys into it.
create table charges (
  admitted_at timestamptz not null,
  id uuid not null,
  organization_id uuid not null,
  key_id uuid not null,
  model text not null,
  tier text not null check (tier in ('serverless', 'economy')),
  price_hash bytea not null,
  prompt_tokens bigint not null check (prompt_tokens >= 0),
  cached_prompt_tokens bigint not null check (cached_prompt_tokens between 0 and prompt_tokens),
  completion_tokens bigint not null check (completion_tokens >= 0),
  -- True when the upstream reported no usable usage and the tokens were counted here.
  estimated boolean not null,
  cost_microcents bigint not null check (cost_microcents >= 0),
  target text not null,
  outcome text not null check (outcome in ('completed', 'cancelled', 'interrupted', 'cut')),
  posted_at timestamptz not null,
  primary key (admitted_at, id)
) partition by range (admitted_at);
create index charges_by_organization on charges (organization_id, admitted_at desc, id);

-- Sums an hour, keyed by the process slot too, so that no two processes write one row. Kept when charges are dropped.
create table usage_rollups (
  organization_id uuid not null,
  hour timestamptz not null,
  model text not null,
  tier text not null,
  key_id uuid not null,
  slot integer not null,
  requests bigint not null,
  prompt_tokens bigint not null,
  cached_prompt_tokens bigint not null,
  completion_tokens bigint not null,
  cost_microcents bigint not null,
  primary key (organization_id, hour, model, tier, key_id, slot)
) with (fillfactor = 70);

-- Charges that the database refused on their own (found by halving their batch). An operator must look at each.
create table dead_charges (
  id uuid primary key,
  charge jsonb not null,
  reason text not null,
  failed_at timestamptz not null
);

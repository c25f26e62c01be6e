-- Plans: who is subscribed, and the meters of what a plan covers. What a plan is called and how much is in it stands in
-- the settings file; here is only its key.

-- One row an organization, whoever wrote it: an operator, later a provider. It entitles while its status says so and
-- within its period.
create table subscriptions (
  organization_id uuid primary key references organizations (id),
  plan text not null,
  -- In a provider's words: only 'active' and 'trialing' entitle.
  status text not null,
  period_start timestamptz not null,
  period_end timestamptz not null check (period_end > period_start),
  cancel_at_period_end boolean not null,
  changed_at timestamptz not null
);

-- Of a charge that a plan covers, and so of no other: the period that it counts to, the model's usage factor in
-- thousandths, the weighted tokens, and what it would have cost. `cost_microcents` is 0 then.
alter table charges
  add column plan_period timestamptz,
  add column plan_factor integer,
  add column plan_input_tokens bigint,
  add column plan_output_tokens bigint,
  add column list_microcents bigint;

-- The meter of a period: sums of the charges that count to it. Keyed by the process slot like rollups, so that no two
-- processes write one row, and written by the statement that posts the charges.
create table plan_periods (
  organization_id uuid not null,
  period_start timestamptz not null,
  slot integer not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  list_microcents bigint not null,
  primary key (organization_id, period_start, slot)
) with (fillfactor = 70);

-- The same by the hour of admission: what the rolling week is added up from. Kept, like rollups, when charges are dropped.
create table plan_hours (
  organization_id uuid not null,
  hour timestamptz not null,
  period_start timestamptz not null,
  slot integer not null,
  requests bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  list_microcents bigint not null,
  primary key (organization_id, hour, period_start, slot)
) with (fillfactor = 70);

-- Finds one hour of all organizations, for the verification.
create index plan_hours_by_hour on plan_hours using brin (hour) with (pages_per_range = 16, autosummarize = on);

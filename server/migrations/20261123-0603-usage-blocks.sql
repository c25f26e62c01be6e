-- Sums of usage over blocks of hours. They take the place of `usage_key_days` and `usage_summed_days`, which a later release drops:
-- gateways of the version before still read and write those.

-- A day, or several, of an organization whose usage was summed. Blocks of several days have twice as many hours as the next shorter
-- ones, and begin at whole multiples of their length since 1970. `requests` and `cost_microcents` are the total of its sums, written by
-- the same statement: those of `usage_hours` from the beginning of the block up to `summed_until`, which is its end, unless it is a
-- day that went on then.
create table usage_blocks (
  organization_id uuid not null, hours integer not null, starts_at timestamptz not null, summed_until timestamptz not null,
  requests bigint not null, cost_microcents bigint not null,
  primary key (organization_id, hours, starts_at),
  check (summed_until > starts_at)
);

-- The sums of `usage_hours` over a block of `usage_blocks`, or over a part of a day, by model, tier and key.
create table usage_sums (
  organization_id uuid not null, hours integer not null, starts_at timestamptz not null,
  model text not null, tier text not null, key_id uuid not null, requests bigint not null,
  prompt_tokens bigint not null, cached_prompt_tokens bigint not null, completion_tokens bigint not null,
  image_count bigint not null, video_seconds bigint not null, cost_microcents bigint not null,
  primary key (organization_id, hours, starts_at, model, tier, key_id)
);

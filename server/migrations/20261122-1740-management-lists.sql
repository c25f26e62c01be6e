-- Sums that usage is added up from, and indexes of lists of the management interface.

-- The sums of `usage_hours` of one UTC day, over its hours and slots. They are made in the background, when the day is over and
-- somebody has asked for it, and may be behind: they hold only while `usage_summed_days` agrees with `usage_days`.
create table usage_key_days (
  organization_id uuid not null, day timestamptz not null, model text not null, tier text not null, key_id uuid not null,
  requests bigint not null,
  prompt_tokens bigint not null, cached_prompt_tokens bigint not null, completion_tokens bigint not null,
  image_count bigint not null, video_seconds bigint not null, cost_microcents bigint not null,
  primary key (organization_id, day, model, tier, key_id)
);

-- A day of an organization that was summed: the sum of its `usage_key_days`, written by the same statement. A charge that comes
-- later changes `usage_days` alone, and so tells that the day must be summed again.
create table usage_summed_days (
  organization_id uuid not null, day timestamptz not null,
  requests bigint not null, cost_microcents bigint not null,
  primary key (organization_id, day)
);

-- Pages of an organization's notices.
create index notices_by_organization on notices (organization_id, noticed_at desc);

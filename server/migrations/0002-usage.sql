-- What `GET /usage`, the verification of the books and retention need beside the tables of the first schema.

-- Sums a day of `usage_rollups`, by the process slot as they are: what the running total up to an instant is added up
-- from (rule B2), where the rollups of years would have to be read. No index on the sums: updates stay within the page.
create table usage_days (
  organization_id uuid not null,
  day timestamptz not null,
  slot integer not null,
  requests bigint not null,
  cost_microcents bigint not null,
  primary key (organization_id, day, slot)
) with (fillfactor = 70);

insert into usage_days (organization_id, day, slot, requests, cost_microcents)
select organization_id, date_bin('1 day', hour, 'epoch'), slot, sum(requests), sum(cost_microcents)
from usage_rollups group by 1, 2, 3;

-- Kept by the statement that changes the rollups, whichever it is, and so in its transaction. Rows are keyed by slot
-- like those they sum up: no two processes write one.
create function add_rollups_to_usage_days() returns trigger language plpgsql as $$
begin
  insert into usage_days as d (organization_id, day, slot, requests, cost_microcents)
  select organization_id, date_bin('1 day', hour, 'epoch'), slot, sum(requests), sum(cost_microcents)
  from added group by 1, 2, 3
  on conflict (organization_id, day, slot) do update set
    requests = d.requests + excluded.requests,
    cost_microcents = d.cost_microcents + excluded.cost_microcents;
  return null;
end $$;

create function add_changes_to_usage_days() returns trigger language plpgsql as $$
begin
  update usage_days d set requests = d.requests + c.requests, cost_microcents = d.cost_microcents + c.cost_microcents
  from (
    select organization_id, date_bin('1 day', hour, 'epoch') as day, slot, sum(requests) as requests,
      sum(cost_microcents) as cost_microcents
    from (
      select organization_id, hour, slot, requests, cost_microcents from changed
      union all
      select organization_id, hour, slot, -requests, -cost_microcents from unchanged
    ) both_sides group by 1, 2, 3
  ) c
  where d.organization_id = c.organization_id and d.day = c.day and d.slot = c.slot;
  return null;
end $$;

create trigger rollups_added after insert on usage_rollups
  referencing new table as added for each statement execute function add_rollups_to_usage_days();
create trigger rollups_changed after update on usage_rollups
  referencing old table as unchanged new table as changed
  for each statement execute function add_changes_to_usage_days();

-- Finds the rollups of one hour of all organizations, for the verification. Rows come in the order of time, so that a
-- few pages of this index stand for all of them, and it costs writers next to nothing.
create index usage_rollups_by_hour on usage_rollups using brin (hour) with (pages_per_range = 16, autosummarize = on);

-- Days whose charges retention has folded into ledger entries. `times` is more than 1 where charges came late: they
-- were folded by themselves, as entries of their own.
create table dropped_days (
  day date primary key,
  times integer not null check (times > 0),
  dropped_at timestamptz not null
);

-- Days whose books the background verification has gone through, or has begun to: then `verified_at` is null.
create table verified_days (
  day date primary key,
  started_at timestamptz not null,
  verified_at timestamptz,
  disagreements bigint not null default 0
);

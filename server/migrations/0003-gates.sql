-- Gates beside the balance: the customer's own caps a UTC day and month, and the hourly cap of new organizations. All
-- figures that a grant is decided on stand on the guarded row of the account. Processes of the version before must be
-- stopped first: they would write a column that is gone.

alter table accounts
  -- What is folded in of the charges admitted on `day` and in `month`. A later day or month begins at 0.
  add column day date not null default '1970-01-01',
  add column day_spent_microcents bigint not null default 0,
  add column month date not null default '1970-01-01',
  add column month_spent_microcents bigint not null default 0,
  -- While in the future, the cap of new organizations is in force (K2). Null: established.
  add column new_until timestamptz,
  -- The sum of this account's `account_minutes`.
  add column hour_spent_microcents bigint not null default 0,
  -- The spending limit as the customer has set it; no monthly limit means that none is configured.
  add column monthly_limit_microcents bigint check (monthly_limit_microcents > 0),
  add column daily_limit_microcents bigint check (daily_limit_microcents > 0),
  add column enforcement text not null default 'block_launch'
    check (enforcement in ('stop_running', 'block_launch', 'notify_only')),
  -- For live instances; null means never.
  add column auto_terminate_hours integer check (auto_terminate_hours > 0);

-- Charges that a process has posted and that are not folded into the account yet, by the minute of their admission, so
-- that folding knows the day, month and hour of each.
create table spent_slices (
  organization_id uuid not null,
  slot integer not null,
  minute timestamptz not null,
  spent_microcents bigint not null,
  primary key (organization_id, slot, minute)
) with (fillfactor = 70);

-- Of new organizations: what is folded in of each minute of the last hour. Deleting a row takes it off the account.
create table account_minutes (
  organization_id uuid not null,
  minute timestamptz not null,
  spent_microcents bigint not null,
  primary key (organization_id, minute)
) with (fillfactor = 70);

update accounts a set balance_microcents = a.balance_microcents - l.spent
from (select organization_id, sum(spent_microcents)::bigint as spent from allotments group by 1) l
where l.organization_id = a.organization_id;
update allotments set granted_microcents = greatest(granted_microcents - spent_microcents, 0);
update accounts a set allotted_microcents =
  coalesce((select sum(granted_microcents) from allotments l where l.organization_id = a.organization_id), 0);
alter table allotments drop column spent_microcents;

update accounts a set day = c.day, day_spent_microcents = c.spent
from (select distinct on (organization_id) organization_id, (admitted_at at time zone 'UTC')::date as day,
    sum(cost_microcents)::bigint as spent
  from charges group by 1, 2 order by 1, 2 desc) c
where c.organization_id = a.organization_id;
update accounts a set month = c.month, month_spent_microcents = c.spent
from (select distinct on (organization_id) organization_id,
    date_trunc('month', admitted_at at time zone 'UTC')::date as month, sum(cost_microcents)::bigint as spent
  from charges group by 1, 2 order by 1, 2 desc) c
where c.organization_id = a.organization_id;
update accounts a set new_until = o.created_at + interval '7 days'
from organizations o where o.id = a.organization_id and o.standing = 'new' and o.first_paid_at is null;

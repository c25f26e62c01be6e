-- Statements. A charge and a ledger entry belong to the month in which they were posted.

-- Finds the charges that were posted in an hour, whatever day they were admitted on. It is small: rows are written in the order
-- of time.
create index charges_by_posting on charges using brin (posted_at) with (pages_per_range = 16, autosummarize = on);

-- The sums of charges by the UTC day on which they were posted: of all charges of a closed day, and of the charges of an open day
-- that retention has dropped. A charge counts here, or is a row of `charges` posted on an open day; never both.
create table posted_sums (
  organization_id uuid not null, posted_day date not null, admitted_day date not null, model text not null, tier text not null,
  charges bigint not null, cost_microcents bigint not null,
  primary key (organization_id, posted_day, admitted_day, model, tier)
);

-- A UTC day that is closed: every charge that was posted on it counts in `posted_sums`. Days are closed in their order, without gaps.
create table closed_days (day date primary key, closed_at timestamptz not null);

-- The statement of an organization for a closed UTC month. Rows never change. The opening balance is the closing balance of the
-- month before. The closing balance is the opening balance and `statement_credits` less the `posted_sums` of the month.
create table statements (
  organization_id uuid not null references organizations (id), month date not null,
  opening_microcents bigint not null, closing_microcents bigint not null,
  closed_at timestamptz not null,
  primary key (organization_id, month)
);

-- The ledger entries of a closed month, summed by their kind and by the first part of their source, such as `payment`.
create table statement_credits (
  organization_id uuid not null, month date not null, kind text not null, source text not null,
  entries bigint not null, amount_microcents bigint not null,
  primary key (organization_id, month, kind, source),
  foreign key (organization_id, month) references statements
);

-- A UTC month of which every organization has its statement.
create table closed_months (month date primary key, closed_at timestamptz not null);

-- Charges that retention dropped before this version count as posted on the day of their admission.
insert into posted_sums
select organization_id, day, day, model, tier, sum(requests), sum(cost) from (
  select h.organization_id, d.day, h.model, h.tier, h.requests, h.cost_microcents as cost
  from dropped_days d join usage_hours h on h.hour >= d.day at time zone 'UTC' and h.hour < (d.day + 1) at time zone 'UTC'
  union all
  select c.organization_id, d.day, c.model, c.tier, -1, -c.cost_microcents
  from dropped_days d join charges c on c.admitted_at >= d.day at time zone 'UTC' and c.admitted_at < (d.day + 1) at time zone 'UTC'
) dropped group by organization_id, day, model, tier having sum(requests) > 0;

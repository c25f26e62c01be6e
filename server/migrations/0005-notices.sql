-- Notices: a cap was reached, or the balance is low. Beside the version before, which neither writes nor reads this.

-- Who is told; at most ten, set by the operator.
alter table organizations add column notify_addresses text[] not null default '{}';

-- The threshold below which the balance was told to be low; null: not told since the balance was last above it.
alter table accounts add column told_below_microcents bigint;
-- Who never had any money is not told that there is none.
update accounts a set told_below_microcents = 0
where not exists (select from ledger_entries e where e.organization_id = a.organization_id);

-- One row for what happened, in the transaction that saw it: the key decides that nobody is told twice. `period` is the
-- first instant of the day or month; of a low balance, and so of each fall below the threshold, when it was seen.
create table notices (
  organization_id uuid not null,
  kind text not null check (kind in ('daily', 'monthly', 'new_account', 'low_balance')),
  period timestamptz not null,
  -- What was spent in the period, or the balance that was left; and the limit or threshold that it met.
  amount_microcents bigint not null,
  limit_microcents bigint not null,
  enforcement text not null,
  noticed_at timestamptz not null,
  -- Null until it was logged and its mails were put into `notice_mails`.
  handled_at timestamptz,
  primary key (organization_id, kind, period)
);
create index notices_to_handle on notices (noticed_at) where handled_at is null;
create index notices_by_age on notices using brin (noticed_at);

-- Mails that are still to be sent, one an address. A row goes when its mail was taken by the server, or given up.
create table notice_mails (
  organization_id uuid not null,
  kind text not null,
  period timestamptz not null,
  address text not null,
  attempts integer not null default 0,
  -- Who takes it sets this ahead, so that nobody else does until that time has passed.
  due_at timestamptz not null,
  primary key (organization_id, kind, period, address),
  foreign key (organization_id, kind, period) references notices on delete cascade
);
create index notice_mails_by_due on notice_mails (due_at);

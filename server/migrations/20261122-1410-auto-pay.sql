-- Auto-pay (rule B5): a payment of an agreed amount by a saved payment method, made when the balance is below a threshold.

-- Below this balance a payment is made. Null: auto-pay is off.
alter table accounts add column auto_pay_threshold_microcents bigint;
-- The job: when auto-pay is to look at this account next. Whatever writes a balance or threshold that leaves the balance below the
-- threshold writes it in the same statement. Null: there is nothing to do.
alter table accounts add column auto_pay_due_at timestamptz;
create index accounts_auto_pay_due on accounts (auto_pay_due_at) where auto_pay_due_at is not null;

-- The agreement of an organization, and how its last payments ended. Only the room `payments` writes it. Locked after the account.
create table auto_pay (
  organization_id uuid primary key references organizations (id),
  is_enabled boolean not null,
  threshold_cents bigint not null, amount_cents bigint not null check (amount_cents > 0),
  attempts_a_day integer not null check (attempts_a_day between 1 and 10), -- A UTC day; a success counts.
  declines integer not null default 0, -- In a row.
  failed_at timestamptz, failure text, -- The last failure since the last success or change, in our words.
  is_told boolean not null default false, -- Whether the organization was told of it.
  -- Switched off after too many declines. A newly saved payment method switches it on again.
  is_suspended boolean not null default false,
  listed_until timestamptz, -- Up to here every payment in the payment provider's list is known. Null: none was ever compared.
  lease uuid, -- Names the last process that took the job. Only its result is applied.
  check (not (is_enabled and is_suspended))
);

alter table payments drop constraint payments_kind_check;
alter table payments add constraint payments_kind_check check (kind in ('top_up', 'auto_pay'));
alter table payments add column method text; -- The saved payment method that auto-pay charges.
-- One at a time. It is `opening` until the payment provider has said what came of it.
create unique index payments_auto_pay_open on payments (organization_id)
  where kind = 'auto_pay' and state in ('opening', 'processing');

alter table notices drop constraint notices_kind_check;
alter table notices add constraint notices_kind_check
  check (kind in ('daily', 'monthly', 'new_account', 'low_balance', 'auto_pay_off', 'auto_pay_authentication'));
alter table notices add column link text; -- Of auto-pay: where a person mends it. Whoever has it may open it.

-- Payments: links that mend auto-pay, portals within an hour, refunds of surplus subscriptions, terms before auto-pay is first used.

-- True: its link was sent to mend auto-pay. An ordinary top-up does not replace it.
alter table payments add column is_mending boolean not null default false;

-- When billing portals were opened within the last hour: at most as many as an hour allows.
alter table payment_customers add column portals_at timestamptz[] not null default '{}';

-- Of a surplus subscription. True: what was paid for its current period was given back, or nothing of it is left to give back. Never left.
alter table payment_subscriptions add column is_refunded boolean not null default false;
-- Until now one was cancelled only after its refund.
update payment_subscriptions set is_refunded = true where is_surplus and status in ('canceled', 'incomplete_expired');

-- The payment provider's price of the subscription, which says the plan; `plan` is then the one that it had when it was written.
-- Null: the operator has set the plan, or the subscription was last written before this version.
alter table subscriptions add column price text;

-- Null: the organization has not set it yet.
alter table auto_pay alter column threshold_cents drop not null, alter column amount_cents drop not null;
alter table auto_pay add constraint auto_pay_terms_check
  check (not (is_enabled or is_suspended) or (threshold_cents is not null and amount_cents is not null));

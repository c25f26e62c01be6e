-- Subscriptions at a payment provider. Only the room `payments` writes these tables; `subscriptions` has what entitles now.

-- A checkout in which a person subscribes. `complete`, `failed` and `expired` are never left.
create table subscription_checkouts (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  provider text not null check (provider in ('local', 'stripe')),
  -- opening: the payment provider is being asked for it, and nobody has its address yet.
  state text not null check (state in ('opening', 'open', 'complete', 'failed', 'expired')),
  checkout text, -- The payment provider's id of it. Null while opening.
  is_replaced boolean not null default false, -- True: a newer one was opened, and this one is to be expired.
  created_at timestamptz not null,
  due_at timestamptz, -- When it is to be retrieved next, although nobody has told of a change. Null: never.
  unique (provider, checkout)
);
create index subscription_checkouts_by_organization on subscription_checkouts (organization_id, id);
create index subscription_checkouts_open on subscription_checkouts (organization_id) where state = 'open';
create index subscription_checkouts_due on subscription_checkouts (due_at) where due_at is not null;

-- A subscription as it was last retrieved from the payment provider. An organization may have several: at most one entitles.
create table payment_subscriptions (
  provider text not null check (provider in ('local', 'stripe')),
  subscription text not null, -- The payment provider's id of it.
  organization_id uuid not null references organizations (id),
  -- Null until it was retrieved under a lease.
  status text, price text, period_start timestamptz, period_end timestamptz,
  cancel_at_period_end boolean not null default false,
  -- True: another one entitles already; it is cancelled at the payment provider, and its payment refunded. Never left.
  is_surplus boolean not null default false,
  created_at timestamptz not null, -- At the payment provider.
  due_at timestamptz, -- As above. Null: it has ended.
  lease uuid, -- Names the last retrieval that was begun. Only its result is applied.
  primary key (provider, subscription)
) with (fillfactor = 70);
create index payment_subscriptions_by_organization on payment_subscriptions (organization_id);
create index payment_subscriptions_due on payment_subscriptions (due_at) where due_at is not null;

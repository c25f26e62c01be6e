-- Payments: money that organizations pay the operator through a payment provider. Only the room `payments` writes these tables.
-- Amounts are whole cents, before tax. Credit stands in `ledger_entries`, each under the payment provider's own id.

-- An organization as a payment provider knows it.
create table payment_customers (
  organization_id uuid not null references organizations (id),
  provider text not null check (provider in ('local', 'stripe')),
  customer text not null, -- The payment provider's id of it.
  created_at timestamptz not null,
  primary key (organization_id, provider),
  unique (provider, customer)
);

-- A payment of credit. What was retrieved from the payment provider decides its state; `paid` is never left.
create table payments (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  provider text not null check (provider in ('local', 'stripe')),
  kind text not null check (kind in ('top_up')),
  amount_cents bigint not null check (amount_cents > 0),
  -- opening: the payment provider is being asked for a checkout, whose address nobody has yet. open: waits for the customer.
  -- processing: the customer has paid, and the payment provider does not know yet whether the money comes.
  state text not null check (state in ('opening', 'open', 'processing', 'paid', 'failed', 'expired')),
  reason text, -- Why it failed or expired, in our words.
  checkout text, checkout_url text, -- The payment provider's checkout. Null while opening.
  payment text, -- The payment provider's id of the payment itself, once it is paid.
  receipt_url text,
  is_replaced boolean not null default false, -- True: a newer checkout was opened, and this one is to be expired.
  created_at timestamptz not null, paid_at timestamptz,
  due_at timestamptz, -- When it is to be retrieved next, although nobody has told of a change. Null: never.
  -- Names the last retrieval that was begun. Only its result is applied, so that an older one never undoes a newer one.
  lease uuid,
  unique (provider, checkout),
  unique (provider, payment)
) with (fillfactor = 70);
create index payments_by_organization on payments (organization_id, id desc);
create index payments_due on payments (due_at) where due_at is not null;

-- A callback of a payment provider whose effect is committed, in the same transaction. Kept for 30 days.
create table payment_callbacks (
  provider text not null check (provider in ('local', 'stripe')),
  event text not null, -- The payment provider's id of it.
  applied_at timestamptz not null,
  primary key (provider, event)
);
create index payment_callbacks_by_age on payment_callbacks using brin (applied_at);

-- An object of the local payment provider, which stands in for a real one: test mode, no real money.
create table local_payment_objects (
  id text primary key, -- Its first letters say what it is. That of a checkout can't be guessed.
  body jsonb not null, changed_at timestamptz not null
);

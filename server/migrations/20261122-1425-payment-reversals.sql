-- Refunds and disputes of payments, frozen organizations, and how far the payment provider was compared with the ledger. Only the room
-- `payments` writes these tables and columns.

-- `payment_refund`: a refund of a payment, or one that failed and came back. `payment_dispute`: a dispute took money, or gave it back.
alter table ledger_entries drop constraint ledger_entries_kind_check;
alter table ledger_entries add constraint ledger_entries_kind_check
  check (kind in ('credit', 'refund', 'adjustment', 'charges', 'payment_refund', 'payment_dispute')) not valid;

alter table payments
  -- With tax, once it is paid. Null: not paid yet, or paid without tax.
  add column gross_cents bigint check (gross_cents > 0),
  -- The credit that refunds and disputes took back: what the ledger has of them.
  add column reversed_cents bigint not null default 0 check (reversed_cents between 0 and amount_cents),
  -- A refund that the operator wants and whose outcome is not known yet: its id, and its amount with tax. Null: none.
  add column refund_request uuid, add column refund_request_cents bigint check (refund_request_cents > 0);
create index payments_refund_requests on payments (id) where refund_request is not null;

-- A refund or a dispute of a payment, as it was last retrieved.
create table payment_reversals (
  provider text not null check (provider in ('local', 'stripe')),
  reversal text not null, -- The payment provider's id of it.
  organization_id uuid not null references organizations (id),
  -- Its payment of credit, or the subscription that was paid for. One of the two.
  payment_id uuid references payments (id), subscription text,
  -- pending, succeeded, failed: of a refund. inquiry, open, won, lost: of a dispute. Null until it was retrieved under a lease.
  state text check (state in ('pending', 'succeeded', 'failed', 'inquiry', 'open', 'won', 'lost')),
  created_at timestamptz not null, -- At the payment provider.
  changed_at timestamptz not null, -- When its state was seen to change.
  due_at timestamptz, -- When it is to be retrieved next, although nobody has told of a change. Null: never.
  lease uuid, -- Names the last retrieval that was begun. Only its result is applied.
  primary key (provider, reversal),
  check ((payment_id is null) <> (subscription is null))
) with (fillfactor = 70);
create index payment_reversals_due on payment_reversals (due_at) where due_at is not null;
create index payment_reversals_by_age on payment_reversals (provider, created_at);

-- A movement of money of a payment that was paid: a refund takes it, a refund that failed brings it back, and so do disputes. It
-- is posted to the ledger in the same transaction, as far as it changes `payments.reversed_cents`.
create table payment_movements (
  provider text not null check (provider in ('local', 'stripe')),
  movement text not null, -- The payment provider's id of it; with `:failed` for a refund that came back.
  payment_id uuid not null references payments (id),
  amount_cents bigint not null check (amount_cents <> 0), -- With tax. Below 0: taken from the operator.
  posted_at timestamptz not null,
  primary key (provider, movement)
);
create index payment_movements_by_payment on payment_movements (payment_id);

-- A reason for which no money may come in from an organization. It is frozen while it has any.
create table organization_freezes (
  organization_id uuid not null references organizations (id),
  reason text not null check (reason in ('operator', 'dispute', 'screening')),
  cause text not null, -- Of `dispute`: the payment provider and its id of the dispute. Empty else.
  note text, frozen_at timestamptz not null,
  primary key (organization_id, reason, cause)
);

-- How far everything that a payment provider has was compared with what is here.
create table payment_reconciliations (
  provider text primary key check (provider in ('local', 'stripe')),
  -- The last reconciled instant: all that was made at the payment provider before it is known here. Null: never compared.
  reconciled_until timestamptz,
  begun_at timestamptz, -- When the last comparison was begun.
  due_at timestamptz not null -- When the next one is.
);

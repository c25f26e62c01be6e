-- Stablecoin deposits: tokens that organizations send to addresses of the operator's. Only the folder `payments/deposits` writes
-- these tables. Credit stands in `ledger_entries`, each transfer under a source of its own.

-- A chain that is watched. `settled_block` is the cursor: every block up to it is settled, and its transfers are in `deposit_transfers`.
create table deposit_chains (
  chain text primary key,
  settled_block bigint not null,
  head_block bigint not null, -- The newest block that was seen, settled or not.
  -- When the cursor last was at the newest settled block. Addresses are watched that were still to be watched then, so that an
  -- outage shortens nobody's time.
  caught_up_at timestamptz not null,
  seen_at timestamptz not null, -- The last look that came to its end.
  is_available boolean not null, -- False: the last look failed. No deposit is begun then.
  due_at timestamptz not null, -- When it is to be looked at next; a process that works on it has moved this ahead.
  lease uuid -- Names the last process that has taken it up.
);

-- What an organization wants to send, and the address for it. An address is given out once.
create table deposits (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  chain text not null,
  asset text not null check (asset in ('usdc', 'usdt')),
  amount_cents bigint not null check (amount_cents > 0), -- What was asked for.
  address text not null unique, -- Lower-case hex on chains of the EVM.
  -- Of the address beneath the extended public key: m/0/<index>. Random, so that a restored backup gives no address twice.
  address_index bigint not null check (address_index between 0 and 2147483647),
  key_fingerprint text not null, -- Of that extended public key, for the sweep: a later one has other addresses.
  status text not null check (status in (
    'created', 'detected', 'confirming', 'settled', 'screening', 'held_screening', 'credited', 'credited_underpaid',
    'credited_overpaid', 'expired', 'expired_received', 'failed', 'failed_screening')),
  credited_microcents bigint not null default 0,
  tx_hash text, -- Of the transfer that came last.
  created_at timestamptz not null,
  expires_at timestamptz not null, -- After it nothing may be sent.
  watched_until timestamptz not null, -- Transfers after it are found by a rescan alone.
  unique (key_fingerprint, address_index)
) with (fillfactor = 70);
create index deposits_by_organization on deposits (organization_id, id desc);
create index deposits_watched on deposits (chain, id) include (address, watched_until);
create index deposits_under_way on deposits (created_at) where status in
  ('created', 'detected', 'confirming', 'settled', 'screening', 'held_screening', 'expired_received');
create index deposits_to_expire on deposits (chain, expires_at) where status = 'created';

-- A transfer of tokens to the address of a deposit. Up to `settled` the chain may take it back, and it is written anew or dropped;
-- from then on the row's block is final. One of a token that nobody asked for is `wrong_token`, and never credit.
create table deposit_transfers (
  chain text not null,
  transaction_hash text not null,
  ordinal integer not null, -- Among the events of its transaction, from 0: it stays when the transaction moves to another block.
  deposit_id uuid not null references deposits (id),
  token text not null, -- The contract.
  asset text check (asset in ('usdc', 'usdt')), -- Null: a wrong token.
  sender text not null,
  units numeric(78) not null check (units > 0), -- 1,000,000 are a dollar.
  block_number bigint not null, block_hash text not null,
  state text not null check (state in (
    'detected', 'confirming', 'settled', 'screening', 'held', 'credited', 'rejected', 'dropped', 'wrong_token')),
  is_late boolean not null, -- It was first seen after its deposit had expired.
  attempts integer not null default 0, -- Of its screening. Only the last one's result counts.
  reason text, -- Why it is held or rejected, in our words.
  due_at timestamptz, -- When it is screened next. Null: it is not.
  detected_at timestamptz not null, decided_at timestamptz,
  primary key (chain, transaction_hash, ordinal),
  check ((state in ('settled', 'screening', 'held')) = (due_at is not null))
) with (fillfactor = 70);
create index deposit_transfers_by_deposit on deposit_transfers (deposit_id, state);
create index deposit_transfers_unsettled on deposit_transfers (chain, block_number) where state in ('detected', 'confirming');
create index deposit_transfers_due on deposit_transfers (due_at) where due_at is not null;

-- Addresses for deposits on chains that have no extended public keys. The operator makes them elsewhere and imports them. Only the
-- folder `payments/deposits` writes this table.
--
-- An address is `free` until a deposit has it (`given`). `used`: it turned out to have a history on its chain, and is never given out.
-- `retired`: the operator has replaced it. An address never becomes free again.
create table deposit_pool (
  address text primary key,
  chain text not null,
  state text not null check (state in ('free', 'given', 'used', 'retired')),
  draw bigint not null, -- Random: addresses are drawn by it, so that a restored backup hardly gives one out again.
  imported_at timestamptz not null,
  -- A deposit is about to take it, which nobody else may before `reserved_until`. The lease names who may.
  lease uuid,
  reserved_until timestamptz,
  check ((lease is null) = (reserved_until is null)),
  check (state = 'free' or lease is null)
) with (fillfactor = 70);
create index deposit_pool_free on deposit_pool (chain, draw) where state = 'free';

-- An address of the pool has no index and no extended public key.
alter table deposits alter column address_index drop not null, alter column key_fingerprint drop not null;
alter table deposits add check ((address_index is null) = (key_fingerprint is null));

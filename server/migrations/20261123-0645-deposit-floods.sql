-- Deposits withstand floods: of events that nobody asked for, of tiny transfers, and of deposits.

-- A chain whose watch was never begun. A cursor that is put back before the first block is at -1 too, and was begun.
alter table deposit_chains add column is_begun boolean not null default false;
update deposit_chains set is_begun = settled_block >= 0;

-- Tokens that nobody asked for, which anybody can make. They have a table of their own, so that none takes the key of a transfer.
create table deposit_wrong_tokens (
  chain text not null,
  transaction_hash text not null,
  token text not null, -- The contract.
  ordinal integer not null, -- Names the event among those of its transaction and token.
  deposit_id uuid not null references deposits (id),
  sender text not null,
  units numeric(78) not null check (units > 0),
  block_number bigint not null, block_hash text not null,
  detected_at timestamptz not null,
  primary key (chain, transaction_hash, token, ordinal)
);
create index deposit_wrong_tokens_by_deposit on deposit_wrong_tokens (deposit_id);
insert into deposit_wrong_tokens
  select chain, transaction_hash, token, ordinal, deposit_id, sender, units, block_number, block_hash, detected_at
  from deposit_transfers where state = 'wrong_token';
delete from deposit_transfers where state = 'wrong_token';

-- `small`: final, of less than the least amount of the settings. It is screened once the deposit's sum makes it worth that.
alter table deposit_transfers drop constraint deposit_transfers_state_check;
alter table deposit_transfers add constraint deposit_transfers_state_check check (state in (
  'detected', 'confirming', 'small', 'settled', 'screening', 'held', 'credited', 'rejected', 'dropped'));

-- Of the deposit: organizations are screened in turn.
alter table deposit_transfers add column organization_id uuid;
update deposit_transfers t set organization_id = d.organization_id from deposits d where d.id = t.deposit_id;
alter table deposit_transfers alter column organization_id set not null;
drop index deposit_transfers_due;
create index deposit_transfers_due on deposit_transfers (organization_id, due_at) where due_at is not null;
create index deposit_transfers_screening on deposit_transfers (organization_id) where state = 'screening';

create index deposit_transfers_newest on deposit_transfers (deposit_id, block_number desc, ordinal desc)
  where state not in ('dropped', 'small');
create index deposit_transfers_dropped on deposit_transfers (detected_at) where state = 'dropped';
create index deposits_made on deposits (organization_id, created_at);

-- Whom else a transaction took tokens from, beside `sender`: addresses, of most first. The screening hears of all of them.
alter table deposit_transfers add column other_senders jsonb not null default '[]';

-- The final block as the nodes told it last, the newest one, and when it was first told: nodes that stand still are seen by it.
alter table deposit_chains add column final_block bigint, add column final_moved_at timestamptz;

-- Whose new deposit an address is reserved for: an organization has at most so many at once. Null where the nodes disagree about it.
alter table deposit_pool add column reserved_for uuid;
create index deposit_pool_reserved on deposit_pool (reserved_for) where reserved_for is not null;

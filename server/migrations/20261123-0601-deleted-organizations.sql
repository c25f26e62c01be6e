-- Organizations can be deleted. The row stays, because charges, payments and ledger entries refer to it; the name and the addresses
-- for notices are erased in the statement that sets the instant. Whoever gives an organization something new (a key, a member, an
-- endpoint, a job, a checkout) looks at `deleted_at` in the statement that writes it.
alter table organizations add column deleted_at timestamptz; -- Null: it is not deleted. It is never set back.

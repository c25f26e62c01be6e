-- Until when a process has claimed the job of auto-pay: the claim makes the job due then, in case the process dies. A job that is due at
-- another instant is claimed by nobody. Null: it was never claimed.
alter table accounts add column auto_pay_claimed_until timestamptz;

-- The charges of an organization from `starts` up to `ends` that are folded into its account, in micro-cents: all that were posted, less
-- what no renewal has folded yet. Volatile, so that it reads what was committed when it is called. The statement of a renewal calls it
-- behind the lock of the account: what it read itself would be of the instant at which it began to wait for that lock.
create function folded_spend(organization uuid, starts timestamptz, ends timestamptz) returns bigint
language plpgsql volatile as $$
begin
  return (select coalesce(sum(u.cost_microcents), 0) from usage_days u
      where u.organization_id = organization and u.day >= starts and u.day < ends)
    - (select coalesce(sum(n.spent_microcents), 0) from unfolded_spend n
      where n.organization_id = organization and n.minute >= starts and n.minute < ends);
end $$;

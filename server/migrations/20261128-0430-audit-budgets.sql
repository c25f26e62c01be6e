-- A row is an organization that has made changes of late which count (K7): its budget is as good as whole at `spent_until`, and each
-- change sets that 12 seconds later, from now on at least. It is never more than an hour ahead. A row of the past says no more than none,
-- and is removed. There is no reference to `organizations`: its check would lock the organization, which others have locked while they
-- wait for this row.
create table audit_budgets (
  organization_id uuid primary key,
  spent_until timestamptz not null
) with (fillfactor = 50);

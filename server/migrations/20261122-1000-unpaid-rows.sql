-- Bounds on rows that a customer makes free of charge.

-- The instants of an organization's last webhook tests and redeliveries, newest first: at most as many as one minute may have.
create table webhook_sends (
  organization_id uuid primary key references organizations (id),
  sent_at timestamptz[] not null
) with (fillfactor = 50);

-- Why a delivery is dead although no attempt was made. Null: it is not, or its attempts failed.
alter table webhook_deliveries add column reason text check (reason in ('too_many_pending'));
-- True: a customer asked for it to try an endpoint. An organization keeps its last ones only.
alter table webhook_deliveries add column is_test boolean not null default false;
-- Counts the pending deliveries of one organization.
create index webhook_deliveries_pending on webhook_deliveries (organization_id) where state = 'pending';
-- Finds the old tests of one organization.
create index webhook_deliveries_tests on webhook_deliveries (organization_id, created_at) where is_test;

-- Counts the waiting jobs of one organization, over all models.
create index videos_queued_of_organization on videos (organization_id) where status = 'queued';
-- Finds the jobs that have ended, and that nobody has to look at again, by their age.
create index videos_over on videos (created_at)
  where status in ('failed', 'cancelled', 'expired') and due_at is null;
-- The same of one organization, those that cost nothing.
create index videos_over_unpaid on videos (organization_id, created_at)
  where status in ('failed', 'cancelled', 'expired') and due_at is null and completed_at is null;

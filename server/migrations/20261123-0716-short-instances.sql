-- Machines that are being deleted count among those that an organization has (`live_instances`).
create index instances_unfinished on instances (organization_id) where state in ('creating', 'running', 'terminating');

-- Those that their customer deleted within ten seconds: work of the driver that nobody pays for, which is bounded by the hour.
create index instances_short on instances (organization_id, ended_at desc)
  where reason = 'deleted' and ended_at - created_at < interval '10 seconds';

-- Counts an organization's queued videos up to a bound. In the order of the ids, so that a bounded count in that order reads this index
-- alone: without an order PostgreSQL read the whole table where few organizations have many videos.
drop index videos_queued_of_organization;
create index videos_queued_of_organization on videos (organization_id, id) where status = 'queued';

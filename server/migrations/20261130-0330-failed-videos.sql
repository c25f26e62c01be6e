-- When the video failed: so many in an hour, and the organization must wait. Else null.
alter table videos add column failed_at timestamptz;
create index videos_failed on videos (organization_id, failed_at) where failed_at is not null;

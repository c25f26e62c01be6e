-- Finds one day of all organizations, for the verification and for retention, whatever number of days there is. Like that of the
-- hours: small, since rows are written in the order of time.
create index usage_days_by_day on usage_days using brin (day) with (pages_per_range = 16, autosummarize = on);

-- The meter of an earlier period, which is carried on until `meter_until`: the period was replaced before it had ended (B10). Both are
-- null where the period has a meter of its own from its start. An end of the period that is `meter_until` too has its grace on that meter.
alter table subscriptions
  add column meter_start timestamptz,
  add column meter_until timestamptz,
  add check ((meter_start is null) = (meter_until is null)),
  add check (meter_until > period_start and meter_until <= period_end);

-- Says whether a kept answer is sealed with an old data key: it is asked under a lock that charges with a kept answer wait for. An answer that
-- is kept writes to every index anyway, since its status is in the condition of another one.
create index idempotent_attempts_by_data_key on idempotent_attempts (data_key) where status is not null;

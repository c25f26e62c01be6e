-- The bytes that an organization's kept answers take (rule D6). A process adds to the row of its own slot, in the transaction that
-- keeps an answer. What is forgotten is subtracted from the row of slot -1, so that no two transactions wait for each other's rows
-- in a ring. The sum of an organization's rows is the figure; a single row may be below 0.
create table kept_answer_bytes (
  organization_id uuid not null, slot integer not null, bytes bigint not null,
  primary key (organization_id, slot)
) with (fillfactor = 70);

alter table idempotent_attempts
  add organization_id uuid, -- Whose quota its kept answer counts for.
  add body_bytes bigint; -- Length of the kept body before encryption. Null while the attempt is under way.

-- Large bodies are encrypted in pieces from now on. Those of before can't be read in pieces: their requests begin anew.
delete from idempotent_attempts where status is not null and (body is null or octet_length(body) > 262144 + 28);
update idempotent_attempts a set body_bytes = octet_length(body) - 28 where status is not null;
update idempotent_attempts a set organization_id = k.organization_id from api_keys k where k.id = a.key_id;
delete from idempotent_attempts where organization_id is null;
alter table idempotent_attempts alter organization_id set not null;

insert into kept_answer_bytes
select organization_id, -1, sum(body_bytes + 1024) from idempotent_attempts where status is not null group by organization_id;

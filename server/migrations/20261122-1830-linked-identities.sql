-- Single sign-on: what an identity provider, such as a company's own, calls a person who has an account here. Only the room
-- `identity/accounts` writes this table. A row is made by a session of the person alone; nobody is found by a mail address.
create table linked_identities (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  issuer text not null check (length(issuer) <= 500), -- The identity provider's own name for itself: its address.
  subject text not null check (length(subject) between 1 and 255), -- The person's id there, which never goes to another person.
  created_at timestamptz not null, last_used_at timestamptz,
  unique (issuer, subject), unique (user_id, issuer)
);

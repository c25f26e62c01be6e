-- Accounts of people: who signs in, of which organizations they are members, and with which role. Only the room
-- `identity/accounts` writes these tables. The package better-auth reads and writes `users`, `sessions` and `credentials`.

-- A person who signs in. The address is in lower case, and is known to be the person's once `email_verified` is true.
create table users (
  id uuid primary key,
  name text not null, email text not null unique check (email = lower(email)),
  email_verified boolean not null default false,
  image text, -- Of the package; not used.
  is_operator boolean not null default false, -- True: may do what the operator of the installation does.
  created_at timestamptz not null, updated_at timestamptz not null
);

-- A way in which a person signs in: with a password, whose scrypt hash is here.
create table credentials (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references users (id) on delete cascade,
  provider_id text not null, account_id text not null, -- `credential` and the person's id, for a password.
  password text,
  access_token text, refresh_token text, id_token text, scope text, -- Of other providers of identity; not used.
  access_token_expires_at timestamptz, refresh_token_expires_at timestamptz,
  created_at timestamptz not null, updated_at timestamptz not null,
  unique (provider_id, account_id)
);
create index credentials_by_user on credentials (user_id);

-- A person who is signed in with one browser. The row goes when the session ends; one that has expired is swept.
create table sessions (
  id uuid primary key default gen_random_uuid(),
  token text not null unique, -- SHA-256 of the token in the cookie, as 64 hex digits. The token itself is stored nowhere.
  user_id uuid not null references users (id) on delete cascade,
  -- The organization that the person chose to act for; null: the one of the oldest membership.
  organization_id uuid references organizations (id),
  expires_at timestamptz not null, created_at timestamptz not null, updated_at timestamptz not null,
  ip_address text, user_agent text -- Of the sign-in.
);
create index sessions_by_user on sessions (user_id);
create index sessions_by_expiry on sessions (expires_at);

-- A person's place in an organization. A row stays when the member is removed, so that its keys still say whose they were.
create table members (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  user_id uuid not null references users (id),
  role text not null check (role in ('owner', 'admin', 'member')),
  created_at timestamptz not null, removed_at timestamptz
);
create unique index members_once on members (organization_id, user_id) where removed_at is null;
create index members_by_user on members (user_id, created_at) where removed_at is null;
create index members_by_organization on members (organization_id, id) where removed_at is null;

-- An address that is asked to become a member. It is open until it is accepted, withdrawn or has expired.
create table invitations (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  email text not null check (email = lower(email)),
  role text not null check (role in ('owner', 'admin', 'member')),
  created_at timestamptz not null, expires_at timestamptz not null,
  accepted_at timestamptz, withdrawn_at timestamptz
);
create unique index invitations_once on invitations (organization_id, email) where accepted_at is null and withdrawn_at is null;
create index invitations_by_organization on invitations (organization_id, id);

-- A link that was given to a person, for one use. The row goes with its use; one that has expired is swept.
create table account_links (
  hash bytea primary key check (octet_length(hash) = 32), -- SHA-256 of the secret in the link, which is stored nowhere.
  -- set_up: makes the first person's account. reset: sets a new password of `user_id`. invitation: accepts `invitation_id`.
  purpose text not null check (purpose in ('set_up', 'reset', 'invitation')),
  user_id uuid references users (id) on delete cascade,
  invitation_id uuid references invitations (id) on delete cascade,
  created_at timestamptz not null, expires_at timestamptz not null,
  check ((purpose = 'reset') = (user_id is not null)), check ((purpose = 'invitation') = (invitation_id is not null))
);
create index account_links_by_expiry on account_links (expires_at);

-- The audit log: each change by a person or an admin's key. Written in the transaction of the change. Kept for 400 days.
create table audit_entries (
  id uuid primary key,
  organization_id uuid references organizations (id), -- Null: it concerns a person alone.
  actor_kind text not null check (actor_kind in ('user', 'api_key', 'operator')),
  actor_id uuid, -- The person or the key; null: an operator with a shell on the server.
  action text not null, -- Such as `member.removed`.
  subject_id uuid, -- The member, key or invitation that was changed.
  before jsonb, after jsonb, -- Of the fields that changed; null where there was, or is, nothing. Never a secret.
  address text, -- The client's; null: a shell on the server.
  created_at timestamptz not null
);
create index audit_entries_by_organization on audit_entries (organization_id, id desc);
create index audit_entries_by_age on audit_entries using brin (created_at);

-- The member that a key belongs to; null: it belongs to the organization. A member's key has an admin's rights only while the
-- member has them, and is revoked when the member is removed.
alter table api_keys add column member_id uuid references members (id);
create index api_keys_by_age on api_keys (organization_id, id desc); -- Pages of a list of thousands.
create index api_keys_by_member on api_keys (member_id) where member_id is not null;

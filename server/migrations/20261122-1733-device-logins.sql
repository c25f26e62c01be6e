-- A program that asks to be logged in (RFC 8628), from its first request until it has its API key. The row goes with the key; one
-- that has expired is swept. Only the room `identity/accounts` writes the table.
create table device_logins (
  id uuid primary key,
  -- SHA-256 of the code that the program has, and of the code that the person types. Neither code is stored.
  device_hash bytea not null unique check (octet_length(device_hash) = 32),
  user_hash bytea not null unique check (octet_length(user_hash) = 32),
  name text not null, -- Of the machine, as it calls itself.
  address text not null, -- Of the machine.
  scopes text not null, -- That the program asks for; once approved, that the person gives.
  admin boolean not null default false, -- Whether the key gets an admin's rights. Only an approval sets it.
  -- open: nobody has typed the code. claimed: `session_id` has typed it for `member_id`, and alone may approve or deny it.
  state text not null check (state in ('open', 'claimed', 'approved', 'denied')),
  session_id uuid, -- No reference: a session may end first, and nobody may decide then.
  member_id uuid references members (id), -- The key will be this member's.
  interval_seconds integer not null check (interval_seconds between 1 and 60), -- Between two questions of the program.
  polled_at timestamptz, -- The last question; null: none came yet.
  created_at timestamptz not null, expires_at timestamptz not null,
  check ((state = 'open') = (session_id is null)), check ((state = 'open') = (member_id is null))
);
create index device_logins_by_expiry on device_logins (expires_at);

-- Passkeys: a person signs in with one in place of a password. Only the room `identity/accounts` writes these tables.

-- The public half of a passkey; the private half never leaves the person's device.
create table passkeys (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  credential_id bytea not null unique check (octet_length(credential_id) between 1 and 1023), -- Chosen by the device.
  public_key bytea not null check (octet_length(public_key) between 1 and 4096), -- COSE, as the device gave it.
  -- How often the device says that it has signed; 0 for ever: it does not count. It never falls.
  sign_count bigint not null check (sign_count >= 0),
  name text not null, -- The person's own word for it.
  created_at timestamptz not null, last_used_at timestamptz
);
create index passkeys_by_user on passkeys (user_id, created_at);

-- The text that a device is to sign next: one a browser, for one use within minutes. The row goes with its use; one that has
-- expired is swept.
create table passkey_challenges (
  browser bytea primary key check (octet_length(browser) = 32), -- SHA-256 of the browser's form token.
  challenge bytea not null check (octet_length(challenge) = 32),
  user_id uuid references users (id) on delete cascade, -- The person who adds a passkey; null: somebody signs in.
  expires_at timestamptz not null
);
create index passkey_challenges_by_expiry on passkey_challenges (expires_at);

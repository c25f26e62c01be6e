-- The expiry of a key that was rotated is the end of its overlap. The one that it had before is kept beside it, so that a second rotation
-- of the key, by somebody who has lost the first answer, gives a key that lives as long as it should.

-- The first rotation; null: the key was not rotated, or has been given another expiry since.
alter table api_keys
  add column rotated_at timestamptz,
  -- Null: the key never expired.
  add column expires_at_before_rotation timestamptz,
  add constraint api_keys_before_rotation check (expires_at_before_rotation is null or rotated_at is not null);

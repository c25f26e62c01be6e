-- Embeddings and images: what their charges are computed from beside tokens. Null everywhere else, which is chat.

alter table charges
  add column modality text check (modality in ('embedding', 'image')),
  -- Of images: how many were delivered, and their pixels together.
  add column image_count integer check (image_count > 0),
  add column image_pixels bigint check (image_pixels > 0);

alter table usage_rollups add column image_count bigint not null default 0;

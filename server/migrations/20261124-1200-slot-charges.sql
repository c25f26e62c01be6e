-- How many charges were ever posted under each slot of a process: the statement that posts them counts them here. A process that
-- was told a higher count than stands here sees that the database has lost charges, as one does that was restored, or a standby that was
-- behind when it was promoted.
create table slot_charges (
  slot integer primary key,
  charges bigint not null check (charges > 0)
);

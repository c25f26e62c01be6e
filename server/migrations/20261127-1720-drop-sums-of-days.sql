-- The sums by day that `usage_blocks` and `usage_sums` have taken the place of.
drop table usage_key_days;
drop table usage_summed_days;

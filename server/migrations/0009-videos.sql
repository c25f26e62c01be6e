-- Videos: this number is theirs.
select 1;

-- The newest row.
SELECT max(id) FROM jobs

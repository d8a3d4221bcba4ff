-- The row of the next job: rows are never given twice, whatever was deleted.
SELECT 1 + max(coalesce((SELECT max(id) FROM jobs), 0), coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'jobs'), 0))

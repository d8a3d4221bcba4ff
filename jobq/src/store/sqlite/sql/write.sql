-- One line of a running job's output, after its lease was found to hold. ?1 id, ?2 lease, ?3 place, ?4 written at ms,
-- ?5 level, ?6 text.
INSERT INTO jobq_output (job, lease, seq, at, level, line) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (job, lease, seq) DO UPDATE SET at = excluded.at, level = excluded.level, line = excluded.line

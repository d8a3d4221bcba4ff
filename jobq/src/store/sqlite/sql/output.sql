-- One page of what a job wrote. ?1 id, ?2 created_at ms, after the line with ?3 lease and ?4 place, ?5 lines at most.
-- A value and no EXISTS, which would become a join, and its plan depend on statistics.
SELECT lease, seq, at, level, line FROM jobq_output
WHERE job = ?1 AND (lease, seq) > (?3, ?4) AND (SELECT created_at FROM jobs WHERE id = ?1) = ?2
ORDER BY lease, seq LIMIT ?5

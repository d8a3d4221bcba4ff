-- The history of one job, and its row's own attempt where that is not in the history. ?1 id, ?2 created_at ms.
SELECT a.lease, a.attempt, a.worker, a.started_at, a.ended_at, a.outcome, a.error, a.late_at, a.late_outcome,
    a.late_text
FROM jobs j JOIN jobq_attempts a ON a.job = j.id
WHERE j.id = ?1 AND j.created_at = ?2
UNION ALL
SELECT lease, attempts, worker, started_at, completed_at, CASE state WHEN 3 THEN 1 ELSE 0 END, NULL, NULL, NULL, NULL
FROM jobs WHERE id = ?1 AND created_at = ?2 AND state IN (2, 3)
ORDER BY 1

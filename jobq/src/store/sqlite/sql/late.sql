-- Keeps what a worker reported after it had lost the job; the first report stays. ?1 id, ?2 lease, ?3 now ms,
-- ?4 outcome, ?5 text.
UPDATE jobq_attempts SET late_at = ?3, late_outcome = ?4, late_text = ?5
WHERE job = ?1 AND lease = ?2 AND late_at IS NULL

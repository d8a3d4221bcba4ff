-- Ends the output of a job's older claims, when a later one begins to write. ?1 id, ?2 the latest lease to forget.
DELETE FROM jobq_output WHERE job = ?1 AND lease <= ?2

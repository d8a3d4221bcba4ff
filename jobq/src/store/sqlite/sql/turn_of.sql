-- The key of a job that is about to change in a caller's transaction is to be looked at when it commits. ?1 id.
INSERT OR REPLACE INTO jobq_turns (concurrency_key, due_at)
SELECT concurrency_key, 0 FROM jobs WHERE id = ?1 AND concurrency_key IS NOT NULL

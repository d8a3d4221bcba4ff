-- The keys of jobs that were enqueued in a caller's transaction are to be looked at when it commits. ?1 JSON array of keys.
INSERT OR REPLACE INTO jobq_turns (concurrency_key, due_at) SELECT value, 0 FROM json_each(?1)

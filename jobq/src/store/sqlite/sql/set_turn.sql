-- A key is to be looked at again. ?1 key, ?2 when, ms.
INSERT OR REPLACE INTO jobq_turns (concurrency_key, due_at) VALUES (?1, ?2)

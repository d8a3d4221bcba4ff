-- A key was looked at. ?1 key.
DELETE FROM jobq_turns WHERE concurrency_key = ?1

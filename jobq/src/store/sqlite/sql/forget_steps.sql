-- A completed job is run again: from its first step on. ?1 id.
DELETE FROM jobq_steps WHERE job = ?1

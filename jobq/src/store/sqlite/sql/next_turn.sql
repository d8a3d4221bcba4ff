-- When the next key is to be looked at, and when the last one, ms.
SELECT (SELECT min(due_at) FROM jobq_turns), (SELECT max(due_at) FROM jobq_turns)

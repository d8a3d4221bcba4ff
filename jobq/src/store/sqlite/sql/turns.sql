-- The keys that are to be looked at again. ?1 now ms, ?2 how far ahead a turn may be, ms; one that is farther was laid
-- before the clock was set back. ?3 limit.
SELECT concurrency_key FROM (
    SELECT concurrency_key FROM jobq_turns INDEXED BY jobq_turns_due WHERE due_at <= ?1
    UNION ALL
    SELECT concurrency_key FROM jobq_turns INDEXED BY jobq_turns_due WHERE due_at > ?1 + ?2
) LIMIT ?3

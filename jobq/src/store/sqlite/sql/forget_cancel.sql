-- Drops a wish that was honoured. ?1 id.
DELETE FROM jobq_cancels WHERE job = ?1

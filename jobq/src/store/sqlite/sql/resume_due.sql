-- Ends the pauses whose time has come. ?1 now ms.
DELETE FROM jobq_pauses WHERE ends_at <= ?1

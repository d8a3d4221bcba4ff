-- Ends one pause. ?1 kind (0 or 1), ?2 name.
DELETE FROM jobq_pauses WHERE kind = ?1 AND name = ?2

-- Takes back a limit that was set or declared. ?1 kind, ?2 name, ?3 source.
DELETE FROM jobq_limits WHERE kind = ?1 AND name = ?2 AND source = ?3

-- Parks a pending job, counts a running one, or takes the hand off it. ?1 id, ?2 its lane or 0, ?3 the state it is in.
UPDATE jobs SET held = ?2 WHERE id = ?1 AND state = ?3

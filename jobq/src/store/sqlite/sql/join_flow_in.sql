-- Jobs that were just laid in a caller's transaction are some of a flow. ?1 first id, ?2 last id, ?3 flow, ?4 links JSON.
UPDATE jobs SET flow = ?3, links = ?4 WHERE id BETWEEN ?1 AND ?2

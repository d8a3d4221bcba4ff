-- A job that was just laid is one of a flow. ?1 id, ?2 flow, ?3 links JSON.
UPDATE jobs SET flow = ?2, links = ?3 WHERE id = ?1

-- What follows from a job of a flow is laid. ?1 id.
UPDATE jobs SET links = '' WHERE id = ?1

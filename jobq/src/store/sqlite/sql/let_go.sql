-- A job goes on without its unique key, which another holds. ?1 id.
UPDATE jobs SET unique_holds = 0, unique_until = NULL WHERE id = ?1

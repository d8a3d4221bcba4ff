-- The window of a unique key is over, and somebody asks for the key. ?1 id.
UPDATE jobs SET unique_until = NULL WHERE id = ?1

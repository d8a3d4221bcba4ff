-- Which database a caller's connection is on, and how durable its commits are. It takes the write lock, and writes
-- nothing: a mere look would pin a snapshot, and the insert after it would fail once somebody else has committed.
UPDATE jobq_store SET tag = tag
RETURNING tag, (SELECT file FROM pragma_database_list WHERE name = 'main'), (SELECT synchronous FROM pragma_synchronous)

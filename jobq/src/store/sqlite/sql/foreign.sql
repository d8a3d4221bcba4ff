-- Which database a caller's connection is on, and how durable its commits are.
SELECT (SELECT tag FROM jobq_store), (SELECT file FROM pragma_database_list WHERE name = 'main'),
    (SELECT synchronous FROM pragma_synchronous)

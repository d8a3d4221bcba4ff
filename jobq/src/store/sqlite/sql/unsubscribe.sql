-- Takes back all that a program has said so. ?1 program. By the primary key.
DELETE FROM jobq_subscriptions WHERE program = ?1

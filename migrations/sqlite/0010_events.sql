-- Which jobs follow from which events, as each program says when it opens the queue: a program that emits an event and
-- lacks a job of another one can tell.
CREATE TABLE jobq_subscriptions (
    program TEXT NOT NULL,
    event TEXT NOT NULL CHECK (length(CAST(event AS BLOB)) BETWEEN 1 AND 64),
    job_type TEXT NOT NULL CHECK (length(CAST(job_type AS BLOB)) BETWEEN 1 AND 64),
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (program, event, job_type)
) STRICT, WITHOUT ROWID;

-- Steps: what a job did once, with its result as JSON, for its later attempts. `lease` is the claim that recorded it.
CREATE TABLE jobq_steps (
    job INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    name TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 64),
    result TEXT NOT NULL CHECK (json_valid(result)),
    lease INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (job, name)
) STRICT, WITHOUT ROWID;

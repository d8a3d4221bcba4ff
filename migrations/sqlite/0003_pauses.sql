-- Pauses: what is paused is accepted and not claimed. `kind` 0 is a queue, 1 a job type; `ends_at` NULL is until
-- somebody resumes it. A pause ends by its row's end alone, so a claim needs no clock to know what is paused.
CREATE TABLE jobq_pauses (
    kind INTEGER NOT NULL CHECK (kind IN (0, 1)),
    name TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 64),
    paused_at INTEGER NOT NULL,
    ends_at INTEGER,
    paused_by TEXT,
    note TEXT,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Pauses a queue or a job type, in the place of the pause that is there. ?1 kind (0 or 1), ?2 name, ?3 now ms, ?4 its end
-- ms (NULL: none), ?5 who, ?6 note.
INSERT OR REPLACE INTO jobq_pauses (kind, name, paused_at, ends_at, paused_by, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

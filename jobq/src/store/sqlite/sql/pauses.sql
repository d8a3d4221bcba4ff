-- All pauses.
SELECT kind, name, paused_at, ends_at, paused_by, note FROM jobq_pauses ORDER BY kind, name

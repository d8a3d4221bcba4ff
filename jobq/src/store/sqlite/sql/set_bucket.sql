-- Keeps a token bucket. ?1 kind (0, 1 or 2), ?2 name or key, ?3 and ?4 when it is full: ?3 / ?4 ms.
INSERT OR REPLACE INTO jobq_buckets (kind, name, full_at, parts) VALUES (?1, ?2, ?3, ?4)

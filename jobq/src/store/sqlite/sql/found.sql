-- Lays a flow. ?1 total, ?2 follow JSON, ?3 parent, ?4 now ms.
INSERT INTO jobq_flows (total, follow, parent, created_at) VALUES (?1, ?2, ?3, ?4) RETURNING id

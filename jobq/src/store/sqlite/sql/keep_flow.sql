-- What a flow's strands ended in. ?1 id, ?2 succeeded, ?3 failed, ?4 cancelled, ?5 joined_at ms.
UPDATE jobq_flows SET succeeded = ?2, failed = ?3, cancelled = ?4, joined_at = ?5 WHERE id = ?1

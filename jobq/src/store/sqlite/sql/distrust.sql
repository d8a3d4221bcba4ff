-- A worker whose byte could not be locked: with an empty boot only its beats decide. ?1 worker.
UPDATE jobq_workers SET boot = '' WHERE id = ?1

-- Deletes a schedule with what is kept of its ticks; its jobs stay. ?1 name.
DELETE FROM scheduled_jobs WHERE id = ?1

//! JobQueue: the one door for applications, admin and command line.

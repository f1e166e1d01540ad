"""Types, settings of workers, task attempts."""

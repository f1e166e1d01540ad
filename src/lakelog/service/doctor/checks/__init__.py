"""The checks of the doctor."""

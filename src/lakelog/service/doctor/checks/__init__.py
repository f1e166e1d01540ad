"""The checks of the doctor, one file each."""

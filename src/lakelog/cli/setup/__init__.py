"""Commands to start with: the demo, the doctor, completion in a shell."""

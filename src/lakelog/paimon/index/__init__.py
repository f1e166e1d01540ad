"""File indexes and deletion vectors."""

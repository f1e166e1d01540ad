"""Definitions of CREATE TABLE and ALTER TABLE."""

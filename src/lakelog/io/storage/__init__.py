"""Storage: one implementation per kind, and wrappers that confine or lock one."""

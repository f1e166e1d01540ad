"""Checks the environment of lakelog and suggests fixes: ``lakelog doctor``. One class and one line per check."""

from __future__ import annotations

from typing import Final

from lakelog.options.registry import Registry
from lakelog.service.doctor.check import Check

CHECKS: Final[Registry[Check]] = Registry(
    "check",
    {
        "java": "lakelog.service.doctor.checks.environment:JavaCheck",
        "spark": "lakelog.service.doctor.checks.environment:SparkCheck",
        "session": "lakelog.service.doctor.checks.environment:SessionCheck",
        "extras": "lakelog.service.doctor.checks.environment:ExtrasCheck",
        "storage": "lakelog.service.doctor.checks.storage:StorageCheck",
        "clock": "lakelog.service.doctor.checks.storage:ClockCheck",
        "catalog": "lakelog.service.doctor.checks.storage:CatalogCheck",
        "log": "lakelog.service.doctor.checks.tables:LogCheck",
        "tables": "lakelog.service.doctor.checks.tables:TablesCheck",
    },
)
"""Every check in running order; later ones depend on earlier ones."""

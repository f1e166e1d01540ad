"""Conditions and values of statements without Spark have Spark's answers: a sample of ``make differential``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from depth import DEPTH
from model.differential import differences


@pytest.mark.local_only
@pytest.mark.timeout(7200)
def test_what_runs_without_spark_has_the_answers_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    for seed in DEPTH.seeds(5):
        wrong = list(differences(spark, tmp_path / str(seed), seed, Counter()))
        assert not wrong, f"seed {seed}:\n" + "\n".join(map(str, wrong))

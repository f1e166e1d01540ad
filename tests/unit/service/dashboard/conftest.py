"""Users of a dashboard with a role each."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards import PASSWORD
from lakelog.service.access.users import Users
from lakelog.sql.runtime.statement import Privilege


@pytest.fixture(scope="session")
def users_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("users") / "users"
    for name, role in (("rita", Privilege.READ), ("wanda", Privilege.WRITE), ("ada", Privilege.ADMIN)):
        Users(path).put(name, role, PASSWORD)
    return path

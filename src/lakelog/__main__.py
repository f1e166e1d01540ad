"""``python -m lakelog`` is the command ``lakelog``."""

from __future__ import annotations

from lakelog.cli.main import main

if __name__ == "__main__":
    main()

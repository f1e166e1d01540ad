"""Numbers in text of any length become the decimal that they say, or an error; no process ends, no value changes."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from lakelog.paimon.types.text_decimals import decimals_from_text

KIND = pa.decimal128(30, 5)


@pytest.mark.parametrize(
    "text",
    ["1.5", "-.5e1", "12e-5", "0." + "0" * 40, "0" * 60 + "1.25", "1234567890123456789012345.12345", "0e-999999999",
     "0e999", "+1E+3", "1.250000000000000000000000000000000000000000000"],
)  # fmt: skip
def test_a_number_that_fits_is_exact(text: str) -> None:
    assert decimals_from_text(pa.array([text, None]), KIND).to_pylist() == [Decimal(text), None]


@pytest.mark.parametrize(
    "text",
    ["0." + "0" * 5_000_000 + "1", "9" * 10_000_000, "0" * 10_000_000 + "1", "1e-999999999", "1e999999999", "1e40",
     "0." + "1" * 30 + "e-30", "0." + "0" * 38 + "1", "9" * 31, "1e", "1_0e1", "e5", "1e" + "9" * 30, " 1e5"],
)  # fmt: skip
def test_any_other_number_is_an_error(text: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        decimals_from_text(pa.array(["1", text]), KIND)

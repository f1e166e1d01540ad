"""A real Chromium for the walks through the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from servers.chromium import chromium

Open = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens pages of their own contexts, so of different people; whatever a page complains of fails the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def opened(**context: object) -> Page:
        contexts.append(browser.new_context(**context))  # type: ignore[arg-type]
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if _is_breach(said.text) else None)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def _is_breach(text: str) -> bool:
    """Whether a line of the console says that a page broke its security policy.

    Not the style attributes with which the browser itself keeps the look of text that is put into an editor: the policy
    blocks them, as it should, and nothing is lost.
    """
    return "Content Security" in text and not text.startswith("Applying inline style")

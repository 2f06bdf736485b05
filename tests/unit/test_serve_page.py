"""The page in a real browser: Debian's Chromium, without a screen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from specmt.models.hub import load_model
from specmt.translator import Translator
from tests.serving import serving

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PICTURES = os.environ.get("SPECMT_PICTURES")
"""A folder for screenshots, for those who want to look at them."""

GERMAN = "Wo ist der Bahnhof?"


@pytest.fixture(scope="module")
def server() -> Iterator[httpx.Client]:
    with serving(lambda: Translator(load_model()), pairs=[("de", "en"), ("en", "de")]) as client:
        yield client


@pytest.fixture(scope="module")
def english() -> str:
    return next(iter(Translator(load_model()).translate([GERMAN]))).text


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        if "SPECMT_REQUIRE_CHROMIUM" in os.environ:
            pytest.fail("there is no chromium")
        pytest.skip("there is no chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, browser: Browser, server: httpx.Client) -> Iterator[Page]:
    context = browser.new_context(color_scheme=request.param, viewport={"width": 1100, "height": 900})
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    strangers: list[str] = []
    page.on("request", lambda each: strangers.append(each.url) if str(server.base_url.host) not in each.url else None)
    page.goto(str(server.base_url))
    yield page
    picture(page, f"{request.node.name}")
    assert not faults
    assert not [url for url in strangers if not url.startswith("data:")]
    context.close()


in_light = pytest.mark.parametrize("page", ["light"], indirect=True)
"""For what does not depend on colours."""


def picture(page: Page, name: str) -> None:
    if PICTURES is not None:
        page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


def violations(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {[node['html'] for node in each['nodes']]}" for each in found]


def test_it_translates_as_one_types_and_switches(page: Page, english: str) -> None:
    expect(page.get_by_label("From")).to_have_value("de")
    page.get_by_label("Text to translate").press_sequentially(GERMAN, delay=5)
    translation = page.get_by_label("Translation", exact=True)
    expect(translation).to_have_value(english)
    expect(page.locator("#sure")).to_contain_text("Acceptable with a probability of")
    expect(page.locator("#doubts")).to_have_text(english)
    assert violations(page) == []
    page.get_by_label("From").select_option("auto")
    expect(page.locator("#found")).to_contain_text("German")
    page.keyboard.press("Alt+s")
    expect(page.get_by_label("Text to translate")).to_have_value(english)
    expect(page.get_by_label("From")).to_have_value("en")
    expect(page.locator("#target")).to_have_value("de")
    page.get_by_label("Text to translate").fill("")
    expect(translation).to_have_value("")


def test_a_look_inside(page: Page) -> None:
    page.get_by_label("Text to translate").fill("Der Parameter ist optional und kann weggelassen werden.")
    page.get_by_role("button", name="Look inside").click()
    expect(page.locator("#steps .accepted").first).to_be_visible()
    picture(page, "during")
    expect(page.locator("#figures")).to_contain_text("a step", timeout=60_000)
    count = page.locator("#steps li").count()
    assert count > 1
    # Each step but perhaps the last ends with a token of the model's own.
    assert count - 1 <= page.locator("#steps .own").count() <= count
    assert violations(page) == []
    page.get_by_role("button", name="Look inside").click()
    expect(page.locator("#inside")).to_be_hidden()


def test_documents(page: Page, english: str, tmp_path: Path) -> None:
    document = tmp_path / "Brief.txt"
    document.write_text(f"{GERMAN}\n\n{GERMAN}\n", encoding="utf-8")
    page.get_by_label("Translate a document").set_input_files(document)
    link = page.get_by_role("link", name="Download Brief.txt in English")
    with page.expect_download() as download:
        link.click()
    assert Path(download.value.path()).read_text(encoding="utf-8") == f"{english}\n\n{english}\n"
    assert download.value.suggested_filename.endswith("Brief_en.txt")
    assert violations(page) == []


@in_light
def test_doubtful_words_are_underlined(page: Page) -> None:
    page.get_by_label("Text to translate").fill("Schlawuzel. Das Fenster ist offen.")
    expect(page.locator("#doubts u").first).to_be_attached()
    expect(page.locator("#sure")).to_contain_text("Underlined: words with a raw probability below 50%.")
    assert "window" not in page.locator("#doubts u").all_text_contents()
    assert violations(page) == []


@in_light
def test_what_is_asked_before_the_languages_are_known_waits_for_them(page: Page, english: str, tmp_path: Path) -> None:
    document = tmp_path / "Brief.txt"
    document.write_text(GERMAN, encoding="utf-8")
    held: list[Route] = []
    page.route("**/languages", lambda route: held.append(route))
    with page.expect_request("**/languages"):
        page.reload()
    page.get_by_label("Translate a document").set_input_files(document)
    page.get_by_label("Text to translate").fill(GERMAN)
    translation = page.get_by_label("Translation", exact=True)
    expect(translation).to_have_class("old")
    expect(page.locator("#document")).to_have_text("Translating Brief.txt …")
    held[0].continue_()
    expect(translation).to_have_value(english)
    expect(page.get_by_role("link", name="Download Brief.txt in English")).to_be_visible()


@in_light
def test_the_keyboard_is_enough(page: Page) -> None:
    expect(page.get_by_label("Text to translate")).to_be_focused()
    reached = []
    page.get_by_label("From").focus()
    for _ in range(8):
        reached.append(page.evaluate("document.activeElement.id"))
        page.keyboard.press("Tab")
    assert reached == ["source", "switch", "target", "text", "translation", "copy", "look", "file"]


def test_faults_are_said(browser: Browser, server: httpx.Client) -> None:
    page = browser.new_page()
    page.goto(str(server.base_url))
    page.get_by_label("Text to translate").fill("x" * 100_001)
    expect(page.locator("#status")).to_contain_text("exceeds text limit")
    page.close()


@in_light
def test_the_description_of_the_routes(page: Page) -> None:
    page.get_by_role("link", name="API").click()
    page.get_by_text("Translate a text, or several").click()
    expect(page.locator("#operations-LibreTranslate-translate_translate_post .opblock-body")).to_be_visible()
    expect(page.get_by_text("Make a glossary")).to_be_visible()

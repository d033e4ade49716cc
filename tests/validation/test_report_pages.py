"""The pages of a validation and of a probe in a browser: wide and narrow, light and dark."""

import re

import numpy as np
import pytest
from started_browser import console_errors, open_page, serious_findings

import iclimit
from iclimit.validation import CLAIMS, validate
from iclimit.validation.report.report import write_report

pytestmark = pytest.mark.slow

CHEAP = ("solver", "gd-constructions", "gd-training", "spectra-samples")
"""Claims that take seconds; one has a figure of its own."""

TEX = re.compile(r"\\[(\[]|\$|``|\\[a-zA-Z]{2,}")


def write_probe(folder):
    problem = iclimit.Problem(dim=4, context=8, noise_variance=0.25, scale=1)

    def averaging(inputs, labels, query):
        return np.einsum("bn,bnd,bd->b", labels, inputs, query) / 8

    path = folder / "probe.html"
    iclimit.probe(averaging, problem, test_prompts=200).write(path)
    return path


def write_validation(folder):
    return write_report(validate([CLAIMS[name] for name in CHEAP]), folder)


@pytest.mark.parametrize("write", [write_validation, write_probe])
def test_page(browser, tmp_path, write):
    page = write(tmp_path)
    for theme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": theme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        for width in (1400, 390):
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            open_page(browser, page)
            script = "return [document.documentElement.scrollWidth, document.body.innerText]"
            wide, text = browser.execute_script(script)
            assert wide <= width
            assert not TEX.findall(text)
            picture = "return document.querySelector('img').getBoundingClientRect().bottom"
            assert browser.execute_script(picture) < 900, "a figure is on the first screen"
        assert serious_findings(browser) == []
    assert console_errors(browser) == []

"""Picture of the explorer: python docs/explorer_picture.py docs/images/explorer.png.

It needs Chromium (`make browser`).
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from iclimit.explorer.page import explorer_page

# What is shown, the width and the height in pixels, and seconds for it to be drawn.
LINK, SIZE, SECONDS = "#panel=icl&axis=kappa&tau=10&alpha=10&rho=0.25", "1280,800", 10


def main(path: str) -> None:
    """Write the explorer, open it and save what is seen."""
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if program is None:
        raise SystemExit("no Chromium found: `make browser` installs it")
    with TemporaryDirectory() as folder:
        page = Path(folder) / "explorer.html"
        page.write_text(explorer_page(), encoding="utf-8")
        flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
        wait = f"--virtual-time-budget={1000 * SECONDS}"
        picture = f"--screenshot={Path(path).resolve()}"
        profile = f"--user-data-dir={folder}/profile"
        command = [program, *flags, wait, profile, f"--window-size={SIZE}", picture]
        subprocess.run([*command, page.as_uri() + LINK], check=True, capture_output=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

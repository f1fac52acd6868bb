r"""Whether axe-core finds a fault in pages, and whether a page is wider than a phone. A script, not a test:

    npm pack axe-core && tar xzf axe-core-*.tgz
    python tests/benchmarks/check_pages.py package/axe.min.js PAGE...

Chromium, headless, opens each page at 1440x900, 1024x768, 390x844, and with dark colours, with every fold open. The page's policy,
which lets only its own script run, is taken out of the copy that is checked. Exit code 1: axe-core finds a violation, or
something is wider than the window outside of a part that scrolls.
"""

import argparse
import html
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

VIEWS = (
    ("1440x900", 1440, 900, False),
    ("1024x768", 1024, 768, False),
    ("390x844", 390, 844, False),
    ("dark", 1440, 900, True),
)
PROBE = """
document.querySelectorAll("details.moved, details.unfold").forEach((each) => { each.open = true; });
addEventListener("load", () => axe.run().then((found) => parent.postMessage(JSON.stringify({
  faults: found.violations.map((each) => [each.id, each.impact, each.nodes.map((node) => node.html.slice(0, 200))]),
  wide: document.documentElement.scrollWidth > innerWidth,
}), "*")));
"""
FRAME = """<iframe src="{page}" width={width} height={height} style="border:0"></iframe>
<pre id="found"></pre><script>onmessage = (event) => {{ document.getElementById("found").textContent = event.data; }};
</script>"""


def check(page: Path, axe: str, width: int, height: int, *, dark: bool) -> Any:
    """Return what axe-core finds in a page, and whether the page is wider than the window."""
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text(encoding="utf-8"))
    scripts = f"<script>{axe}</script><script>{PROBE}</script>"
    with tempfile.TemporaryDirectory() as folder:
        copy, frame = Path(folder) / "page.html", Path(folder) / "frame.html"
        copy.write_text(text.replace("</body>", f"{scripts}</body>"), encoding="utf-8")
        frame.write_text(FRAME.format(page=copy.as_uri(), width=width, height=height), encoding="utf-8")
        options = [
            *("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile"),
            *("--window-size=1500,1000", "--virtual-time-budget=20000", "--dump-dom"),
            *(["--blink-settings=preferredColorScheme=0"] if dark else []),
        ]
        command = ["chromium", *options, frame.as_uri()]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r'<pre id="found">(.+?)</pre>', ran.stdout, re.DOTALL)
    if not found:
        sys.exit(f"{page}: the browser answers nothing: {ran.stderr[-500:]}")
    return json.loads(html.unescape(found[1]))


def main() -> None:
    """Check pages and print what is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("axe", type=Path)
    parser.add_argument("pages", type=Path, nargs="+")
    given = parser.parse_args()
    axe, bad = given.axe.read_text(encoding="utf-8").replace("</script", r"<\/script"), False
    for page in given.pages:
        for name, width, height, dark in VIEWS:
            found = check(page, axe, width, height, dark=dark)
            bad = bad or bool(found["faults"]) or found["wide"]
            print(f"{page} {name}: {len(found['faults'])} violations{', too wide' if found['wide'] else ''}")
            for rule, impact, places in found["faults"]:
                print(f"  {rule} ({impact}), {len(places)} places, the first: {places[0]}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Prepares the sources of the site for mdBook, and checks the links of the site that mdBook has built.

  site/book.py stage FOLDER    writes FOLDER/book.toml and FOLDER/source, from which mdBook builds
  site/book.py links SITE      checks each link and anchor of the pages below SITE

Pages of the tree link to files outside of docs/. In FOLDER/source they have the same places, so these links work in the tree and in the site.
"""

import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")
EXAMPLES = "examples/index.md"


def anchor(path):
    """The anchor of an example in the page of examples: that of its heading."""
    return re.sub(r"[^a-z0-9_-]", "", path.removeprefix("examples/").lower())


def examples():
    """The page of all examples: a section for each folder, and in it one for each file."""
    files = sorted((ROOT / "examples").rglob("*.yaml"), key=lambda file: (len(file.parts), file))
    lines, folder = ["# Examples", "", "Each file is in the folder `examples` of the source tree."], None
    for file in files:
        path = file.relative_to(ROOT).as_posix()
        parent = file.parent.relative_to(ROOT / "examples").as_posix()
        if parent != folder and parent != ".":
            lines += ["", f"## {parent}"]
        folder = parent
        lines += ["", f"{'##' if parent == '.' else '###'} {path.removeprefix('examples/')}", "", "```yaml", file.read_text().rstrip(), "```"]
    return "\n".join(lines) + "\n"


def targets(page):
    """The files of the tree that a page links to, as (link, path from the root, fragment)."""
    for link in LINK.findall((ROOT / page).read_text()):
        parts = urlsplit(link)
        if not parts.scheme and parts.path:
            path = (ROOT / page).parent.joinpath(unquote(parts.path)).resolve()
            if path.is_relative_to(ROOT):
                yield link, path.relative_to(ROOT).as_posix(), parts.fragment


def stage(folder):
    source = folder / "source"
    shutil.rmtree(folder, ignore_errors=True)
    source.mkdir(parents=True)
    for name in ("book.toml", "site.css", "site.js"):
        shutil.copy(ROOT / "site" / name, folder / name)
    summary = (ROOT / "site/SUMMARY.md").read_text()
    (source / "SUMMARY.md").write_text(summary)

    listed = [link for link in LINK.findall(summary) if link != EXAMPLES]
    there = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    wrong = [f"site/SUMMARY.md does not list {page}" for page in sorted(there - set(listed))]
    wrong += [f"site/SUMMARY.md lists {page}, which is no file" for page in listed if not (ROOT / page).is_file()]
    wrong += [f"site/SUMMARY.md lists {page} twice" for page in sorted({page for page in listed if listed.count(page) > 1})]
    if wrong:
        return wrong

    for page in listed:
        text = (ROOT / page).read_text()
        up = "../" * page.count("/")
        for link, path, fragment in targets(page):
            if path == "examples" or path.startswith("examples/"):
                # A browser shows the page of examples, and saves a file of YAML.
                text = text.replace(f"]({link})", f"]({up}{EXAMPLES}#{anchor(path)})")
            elif path in listed and path.endswith("README.md"):
                # mdBook makes the index of its folder from such a page, and does not know that in links.
                text = text.replace(f"]({link})", f"]({link.replace('README.md', 'index.md')})")
            elif path not in listed and (ROOT / path).is_file():
                (source / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, source / path)
        (source / page).parent.mkdir(parents=True, exist_ok=True)
        (source / page).write_text(text)
    (source / EXAMPLES).parent.mkdir(exist_ok=True)
    (source / EXAMPLES).write_text(examples())
    return []


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            # A script or a picture is a file of the site, too.
            if name in ("href", "src") and value is not None:
                self.links.append(value)


def links(site):
    pages = {path.resolve(): Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    wrong, count = [], 0
    for path, page in pages.items():
        for link in page.links:
            count += 1
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                # Nothing here asks other hosts, so an address is checked by its form.
                if parts.scheme not in ("http", "https", "mailto", "data") or parts.scheme.startswith("http") and "." not in parts.netloc:
                    wrong.append(f"{path.relative_to(site.resolve())}: {link} is no address")
                continue
            target = path.parent.joinpath(unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                wrong.append(f"{path.relative_to(site.resolve())}: {link} leads nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{path.relative_to(site.resolve())}: {link} has no such anchor")
    if not wrong:
        print(f"{count} links of {len(pages)} pages lead somewhere")
    return wrong


def main(arguments):
    tasks = {"stage": stage, "links": links}
    if len(arguments) != 2 or arguments[0] not in tasks:
        print(__doc__, file=sys.stderr)
        return 2
    wrong = tasks[arguments[0]](Path(arguments[1]))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

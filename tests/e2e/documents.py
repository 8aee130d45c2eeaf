#!/usr/bin/env python3
"""Checks statements of the documents about the source tree and about themselves.

    documents.py --list | CASE [STENCIL MPIEXEC]
"""
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
PAGES = sorted([*SOURCE.glob("*.md"), *SOURCE.glob("docs/*.md")])
COLUMNS, CELL = 120, 100


class Problems(list):
    def add(self, path, line, what):
        self.append(f"{path.relative_to(SOURCE)}:{line}: {what}")


def lines_of(path):
    """(number, line, is it prose?) of a page; code between fences and indented by 4 is not."""
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = line.startswith("```")
        fenced ^= fence
        yield number, line, not (fenced or fence or line.startswith("    "))


def lines(problems, _program):
    """No line is over 120 columns, a row of a table and a picture's link excepted; no cell is over 100 characters."""
    for path in PAGES:
        for number, line, _ in lines_of(path):
            if line.startswith("|"):
                for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                    if len(cell.strip()) > CELL:
                        problems.add(path, number, f"a cell of {len(cell.strip())} characters, at most {CELL}")
            elif len(line) > COLUMNS and not line.startswith("!["):
                problems.add(path, number, f"{len(line)} columns, at most {COLUMNS}")


def anchors(path):
    """The anchors of a page's headings, as GitHub makes them."""
    for _, line, prose in lines_of(path):
        if prose and line.startswith("#"):
            title = line.lstrip("#").strip().lower()
            yield re.sub(r"[^\w\- ]", "", title).replace(" ", "-")


def links(problems, _program):
    """Links lead to files of the repository, and to headings that are there."""
    for path in PAGES:
        for number, line, prose in lines_of(path):
            for target in re.findall(r"\]\(([^)]+)\)", line) if prose else []:
                if re.match(r"https?:", target):
                    continue
                file, _, anchor = target.partition("#")
                page = path if not file else path.parent / file
                if not page.exists():
                    problems.add(path, number, f"{target}: there is no such file")
                elif anchor and anchor not in anchors(page):
                    problems.add(path, number, f"{target}: there is no such heading")


def citations(problems, _program):
    """Comments cite only pages that are in the repository."""
    pages = {page.name for page in PAGES} | {page.stem for page in PAGES}
    cited = re.compile(r"\b(SPEC\b(?: \d)?|[A-Z]{4,}\.md)")
    for folder in ("src", "kernels", "io", "config", "tests", "jobs", "python"):
        for path in sorted((SOURCE / folder).rglob("*")):
            if path.suffix not in {".c", ".h", ".cu", ".cuh", ".def", ".py", ".sh", ".ini"} or path == Path(__file__).resolve():
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for name in cited.findall(line):
                    if name not in pages:
                        problems.add(path, number, f"cites {name}, which is not in the repository")


def body_of(path, name):
    """The text of a function that the file defines, from its name on; None where it does not."""
    head = re.compile(rf"^(?!\s|#|//|\*).*?\b{name}\(|^\s+{name}\(", re.MULTILINE)
    text = path.read_text()
    for match in head.finditer(text):
        brace, semicolon = text.find("{", match.end()), text.find(";", match.end())
        if 0 <= brace and (semicolon < 0 or brace < semicolon):
            end = re.compile(r"^}", re.MULTILINE).search(text, brace)
            return text[match.end():end.start() if end else None]
    return None


def calls(problems, _program):
    """`file: function` names a function that the file defines; of a numbered list each calls the next, or what it says."""
    steps = 0
    for path in PAGES:
        caller = None  # (name, body) of the list's last function, whose body must name the next one
        for number, line, _ in lines_of(path):
            item = re.match(r"\d+\. ", line)
            if line.strip() and not item:
                caller = None
            for place, name in re.findall(r"`([\w/]+\.\w+): (\w+)`", line):
                body = body_of(SOURCE / place, name) if (SOURCE / place).exists() else None
                if body is None:
                    problems.add(path, number, f"{place} defines no {name}")
                if not item or body is None:
                    continue
                steps += 1
                if caller and not re.search(rf"\b{name}\b", caller[1]):
                    problems.add(path, number, f"{caller[0]} does not call {name}")
                other = re.search(r"(?:through|by) `([^`]+)`", line)
                if other and other.group(1) not in body:
                    problems.add(path, number, f"{name} has no {other.group(1)}")
                caller = None if other else (name, body)
    if steps < 10:
        problems.add(SOURCE / "docs/DESIGN.md", 1, f"the list from main to a kernel has only {steps} steps")


def modules(problems, _program):
    """The modules and what they may use are those of tests/layering.sh."""
    script, page = (SOURCE / "tests/layering.sh").read_text(), SOURCE / "docs/DESIGN.md"
    table = re.search(r"^modules='\n(.*?)'$", script, re.MULTILINE | re.DOTALL).group(1)
    allowed = {module.strip(): set(uses.split()) for module, uses, _ in (row.split("|") for row in table.splitlines())}
    written = {module: uses for module, uses in re.findall(r"^\| `([\w/]+)` \|[^|]*\| ([^|]*) \|$", page.read_text(), re.MULTILINE)}
    everything = {module.split("/")[-1] for module in allowed if not module.startswith(("kernels/", "io/"))} - {"run"}
    for module, uses in allowed.items():
        found = {"all modules": everything, "nothing": set()}.get(written.get(module, ""), set(written.get(module, "?").split()))
        if found != uses:
            problems.add(page, 1, f"{module} may use {sorted(uses)}, the page says {sorted(found)}")


def completion(problems, _program):
    """What bash offers: options, keys, the words of a key."""
    script = SOURCE / "jobs/stencil.bash"
    for words, wanted in [(["--be"], "--benchmark"), (["a.ini", "equation.ty"], "equation.type="),
                          (["a.ini", "equation.type", "=", "w"], "wave"), (["a.ini", "source.7.wavelet", "=", "r"], "ricker"),
                          (["a.ini", "equation.type", "="], "jacobi heat wave")]:
        text = f'source {script}; COMP_WORDS=(stencil "$@"); COMP_CWORD=$#; _stencil; echo "${{COMPREPLY[*]}}"'
        found = subprocess.run(["bash", "-c", text, "-", *words], capture_output=True, text=True).stdout.strip()
        if found != wanted:
            problems.add(script, 1, f"{words}: offers '{found}', not '{wanted}'")


def figures(problems, _program):
    """The figures beside other programs name the commits that they were measured at, of this history."""
    page, git = SOURCE / "docs/PERFORMANCE.md", ["git", "-C", SOURCE]
    section = re.search(r"^## Beside other programs\n(.*?)^## ", page.read_text(), re.MULTILINE | re.DOTALL).group(1)
    commits = re.findall(r"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7,}\b", section)
    shallow = subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True).stdout.strip()
    if len(commits) < 3:
        problems.add(page, 1, f"the figures name only the commits {commits}")
    for commit in commits if shallow == "false" else ():
        if subprocess.run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True).returncode:
            problems.add(page, 1, f"{commit} is no commit of this history")


CASES = {case.__name__: case for case in (lines, links, citations, calls, modules, completion, figures)}


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(CASES))
        return
    problems = Problems()
    CASES[sys.argv[1]](problems, sys.argv[2:3])
    sys.exit("\n".join(problems) if problems else 0)


if __name__ == "__main__":
    main()

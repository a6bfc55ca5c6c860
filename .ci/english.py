"""Counts phrases that a native technical writer would not write, and sentences of more than 30 words.

Reads prose in Markdown, and string literals, docstrings and comments in Python.  Generated sections are left out: their text is
checked where it comes from.  `.ci/english.txt` has the number of findings for each folder, and these numbers only fall.

    python .ci/english.py               compares with the table, as `make lint` does
    python .ci/english.py --lower       writes the numbers that have fallen into the table
    python .ci/english.py --show PATH   prints the findings in a file or folder

A phrase that is right as it is gets `english: ok` on its line, in at most 10 places.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TABLE = ROOT / ".ci" / "english.txt"
LONGEST = 30
"""Words in a sentence."""
EXCEPTION = "english: ok"
MOST_EXCEPTIONS = 10
HEADER = """\
# Findings of .ci/english.py that are left in each folder: phrases, then sentences of more than 30 words.
# The numbers are exact and only fall: after `python .ci/english.py --lower`, commit this file with the texts.
"""
NO_ROW = ("#", "<<<<<<<", "|||||||", "=======", ">>>>>>>")
LONG = "long"
PATTERNS: dict[str, tuple[str, str]] = {  # name: (regular expression, what to write instead)
    "is-no": (
        r"(?<![Tt]here )\b(?:is|are|was|were|be) no (?!longer|more|less|fewer|way|need|point|later|such|"
        r"limit\b|reason|one\b)(?=[a-z`{])",
        "is not a …; invalid …",
    ),
    "there-is-no": (r"\b[Tt]here (?:is|are) no (?:[a-z]+ )?[{`'][^ ]*", "unknown X …; X … not found"),
    "is-not-there": (
        r"\b(?:is|are|was|were) (?:not )?there(?: \w+)?(?=[:;,.)]|$)|\bnot there(?: yet| any more)?\b",
        "does not exist; is missing",
    ),
    "knows-no": (
        r"\b(?:knows?|gives?|asks? for|names?|finds?|keeps?|says?|hears?|tells?) no (?!longer|more)[a-z]+",
        "does not …",
    ),
    "that-there-are": (
        r"\b(?:that|which|than) there (?:is|are|was|were)\b|\ball that there\b|\bwhat there is\b",
        "drop it: the existing …",
    ),
    "of-opening": (
        r"^(?:\*[^*]+\*: )?Of (?!course)(?:a|an|the|one|what|whom|those|several|each|all|another|its|"
        r"that|this|[A-Z*`])",
        "start with the noun: X of Y; If …",
    ),
    "who-what-opening": (
        r"(?:^|(?<=[.!?] ))(?:Whoever|Whatever|What (?![Ii]s\b|are\b|was\b|does\b|do\b|if\b|to\b|"
        r"happens if\b)[a-z*]|Who (?!is\b|may\b|can\b|has\b|should\b|you\b)[a-z]+s? )[^?]*$",
        "name the subject: Tasks that …; Users who …",
    ),
    "those-opening": (r"(?:^|(?<=[.!?] ))(?:Those|That) (?:that|which|of|who|are)\b", "name the noun"),
    "whose-of-which": (r"\bof (?:which|whom|whose)\b", "two sentences; whose; with"),
    "told": (
        r"\b(?:is|are|was|were|be|been|also) told\b|\btells? (?:it|of|whether|that|what|nothing|which|"
        r"how|apart)\b|\btold (?:apart|of|it|them)\b",
        "show, report, say",
    ),
    "says-so": (
        r"\bsays? (?:so|of|nothing|it|that it|otherwise|none|whether|what|where|when|which|how|yes|no)\b|"
        r"\b(?:if|is|are) not said\b",
        "show, specify, set",
    ),
    "goes-on": (r"\b(?:goes|go|went|going) on(?! to the next)\b", "continues; keeps running; finishes"),
    "at-once": (r"(?<!all )(?<!rows )\bat once\b", "immediately; at the same time"),
    "take-back": (
        r"\btakes? back\b|\b(?:is|are|was|were|be) taken back\b|\bput(?:s|ting)? back\b|"
        r"\bgives? back what\b|\bgives? up its\b",
        "reclaim; restore; release",
    ),
    "lies-stands": (
        r"\b(?:lies?|lay|stands?|stood) (?:in|on|at|under|before|beside|behind|below|above|there|near|"
        r"apart|beyond)\b(?! (?:top|for|the way))",
        "is in; is located; precedes",
    ),
    "holds-keeps": (
        r"\b(?:keeps?|kept) (?:out|back)\b|\b[Kk]eeps? the (?:user|others?)\b|"
        r"\bdoes not keep the others\b",
        "exclude; withhold; prevent",
    ),
    "made": (r"\b(?:is|are|was|were|be) made\b(?! (?:of|from|by|up|for|available|to)\b)", "is created"),
    "let-in": (r"\b(?:lets?|got|gets?) (?:in|somebody in|anybody in|a person|USER in)\b", "log in; admit"),
    "nobody": (r"\b(?:nobody|somebody|everybody|whoever)\b", "no user; another user; name who"),
    "so-many": (
        r"\b(?:so|as) (?:many|much) (?:of|lines|bytes|GPUs|seconds|are|as is|at)\b|\bAt most so many\b",
        "up to N",
    ),
    "besides-meanwhile": (
        r"\b(?:besides|meanwhile|thereby|therein|thereof|whereof|hereby|hitherto|for ever|by then|by now|"
        r"till then)\b",
        "also; at the same time; until then, with the time",
    ),
    "shall": (r"\bshall\b", "must; will; present tense"),
    "circle": (r"\b(?:run|runs|in) (?:in )?a circle\b|\bcircle of\b", "cycle"),
    "here-twice": (
        r"\b(?:is|are) (?:here|there|in it) twice\b|\bfirst stands\b",
        "duplicate …; first defined on line …",
    ),
    "not-read": (
        r"(?:: |, |^)(?:it is |they are |and |this one is )?not (?:read|used|honoured|looked at)\b|"
        r"\bnever looked at\b",
        "ignored; not evaluated",
    ),
    "refused-there": (r"\b(?:refused|accepted) there\b", "Kueue rejects …"),
    "provider-of": (r"\bproviders? of identit(?:y|ies)\b", "identity provider"),
    "good-token": (
        r"\b(?:token|code|signature|key|cookie|answer|sign-in)s? (?:is|are|that is|"
        r"that are) (?:not )?good\b|\bno good\b|\bgood tokens?\b|\bhow long it is good\b",
        "valid",
    ),
    "asks-for": (r"\bit (?:asks|asked) for\b|\basks? for (?:\{|[0-9])", "needs; requests"),
    "raw-key": (r"\b[0-9]+ of default/gpu\b|\{have\} of \{resource\}|\{need\} of \{resource\}", "N GPUs"),
    "law-in-prose": (r"\((?:law|laws) [A-Z][0-9]+", "(rule R2), or a reference column"),
    "promised": (r"\bpromis(?:e|ed|es)\b", "guarantee, guaranteed quota"),
    "stand-in": (r"\b[Ss]tand-in\b|\b[Ss]tand in for\b|\bthat stand in\b(?! [a-z])", "simulated"),
    "comes-to-rest": (r"\b(?:come|comes|came|coming) to rest\b|\bat rest\b", "settles"),
    "of-ours": (r"\b(?:of ours|of our own|of his own|of yours)\b", "our X; your X"),
    "where-verb-end": (
        r"\b(?:until|when|once|after) (?:it|they|that|this) (?:has|have) ended\b|"
        r"\bwhat has (?:not )?(?:started|ended|begun)\b",
        "finishes; workflows that have started",
    ),
    "any-more": (
        r"\bnot any more\b|\bno more any\b|\b(?:does|do|is|are|can) not [a-z]+ (?:it )?any more\b|"
        r"\bno longer any\b",
        "no longer",
    ),
    "is-to-be": (r"\b(?:is|are|was|were) to be\b(?! [a-z]+ed by you)", "must be; will be"),
    "such-as-write": (r"\bwrite such as\b|\bwrite one such as\b", "for example"),
    "repeat-it": (r"(?:;|,|^) ?repeat it\b", "(repeatable)"),
    "becomes-of": (r"\bbecomes? of\b", "what happens to"),
    "on-trial": (r"\bon trial\b", "in a what-if run"),
    "work-that": (
        r"\b[Ww]ork that (?:runs|waits|is|goes|stops|never|started)\b|\bworkflows? that waits?\b",
        "running work; waiting workflows",
    ),
    "has-gone": (r"\b(?:has|have) gone\b|\bwhat is gone\b", "was deleted; disconnected; no longer exists"),
    "at-most-are": (r"\bat most (?:\{[^}]*\}|[0-9,]+) are\b", "maximum N"),
    "take-out": (r"\b[Tt]akes? (?:it|them|this) (?:out|off)\b", "remove"),
    "beside": (r"\bbeside\b", "next to; with; in addition to"),
    "a-place": (
        r"\b(?:has|have|had|gets?|finds?|found|gives? up) (?:a|its|no|one) place\b",
        "placement; reserved nodes",
    ),
    "let-go-spare": (r"\blet go\b|\bspar(?:e|es|ed)\b", "stop; release; keep running"),
    "all-the-while": (r"\ball the (?:same|while)\b|\ball else\b|\bjust so\b", "still; meanwhile; everything else"),
    "in-our-words": (r"\bin (?:our|its|their) own words\b", "rewritten"),
    "write-imperative": (r": write (?:\{|[a-z]+: )", "use …"),
}
COMPILED = {name: re.compile(pattern) for name, (pattern, _) in PATTERNS.items()}
NOT_PROSE = re.compile(r"^\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|WITH|<[a-z!/])")
GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
FENCED = re.compile(r"```.*?```", re.DOTALL)
PARAGRAPHS = re.compile(r"(\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.) ?))")
SENTENCES = re.compile(r"(?<=[.:!?])\s+(?=[A-Z`*])")


class Finding(NamedTuple):
    path: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        instead = f"a sentence of at most {LONGEST} words" if self.kind == LONG else PATTERNS[self.kind][1]
        return f"{self.path}:{self.line}: {self.kind} ({instead}): {self.text[:120]}"


class Limit(NamedTuple):
    phrases: int
    long: int


# ---------------------------------------------------------------- the texts of a file


def blanked(pattern: re.Pattern[str], text: str) -> str:
    """*text* with empty lines in place of what *pattern* finds, so that all other lines keep their numbers."""
    return pattern.sub(lambda found: "\n" * found[0].count("\n"), text)


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yields each string and comment with its first line; a value in an f-string is `{x}`."""
    parts: set[int] = set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts.update(id(each) for each in ast.walk(node) if each is not node)
            pieces = (str(each.value) if isinstance(each, ast.Constant) else "{x}" for each in node.values)
            yield node.lineno, "".join(pieces)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def markdown_texts(source: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(blanked(FENCED, source).splitlines(), start=1):
        for cell in line.strip("| ").split(" | ") if line.startswith("|") else [line]:
            yield number, re.sub(r"^\s*(?:[-*>]|\d+\.|#+)\s+", "", cell)


def plain(text: str) -> str:
    """*text* without inline code and addresses."""
    return re.sub(r"`[^`]*`", "`x`", re.sub(r"\]\([^)]*\)", "]", re.sub(r"https?://\S+", "URL", text)))


def words(text: str) -> int:
    return len(re.findall(r"[A-Za-z']{2,}", text))


# ---------------------------------------------------------------- what is found in it


def findings(path: str, source: str) -> Iterator[Finding]:
    """*path*: relative to the root; it ends in .py or .md."""
    markdown = path.endswith(".md")
    source = blanked(GENERATED, source) if markdown else source
    lines = source.splitlines()
    found = phrases(path, markdown_texts(source) if markdown else python_texts(source))
    yield from (each for each in found if EXCEPTION not in lines[min(each.line, len(lines)) - 1])
    yield from long_sentences(path, [(1, blanked(FENCED, source))] if markdown else python_texts(source))


def phrases(path: str, texts: Iterable[tuple[int, str]]) -> Iterator[Finding]:
    for start, text in texts:
        if words(text) < 2 or NOT_PROSE.search(text):
            continue
        for offset, line in enumerate(text.split("\n")):
            prose = plain(line.strip())
            for kind, pattern in COMPILED.items():
                for _ in pattern.finditer(prose):
                    yield Finding(path, start + offset, kind, line.strip())


def long_sentences(path: str, texts: Iterable[tuple[int, str]]) -> Iterator[Finding]:
    """Yields the long sentences of paragraphs; tables are left out."""
    for start, text in texts:
        line = start
        for paragraph in PARAGRAPHS.split(text) if words(text) > LONGEST else ():
            for sentence in SENTENCES.split(plain(paragraph)):
                if not paragraph.lstrip().startswith("|") and words(sentence) > LONGEST:
                    yield Finding(path, line, LONG, " ".join(sentence.split()))
            line += paragraph.count("\n")


# ---------------------------------------------------------------- the table


def read_table(text: str) -> dict[str, Limit]:
    """If a merge conflict left a row twice, the larger limits count, so that `--lower` resolves the conflict."""
    limits: dict[str, Limit] = {}
    for line in text.splitlines():
        if not line.startswith(NO_ROW):
            path, phrases, long = line.split()
            limit = Limit(int(phrases), int(long))
            limits[path] = Limit(*map(max, limit, limits.get(path, limit)))
    return limits


def table_text(limits: dict[str, Limit]) -> str:
    return HEADER + "".join(f"{path:24}{limit.phrases:5}{limit.long:5}\n" for path, limit in limits.items())


def row_of(path: str, limits: Iterable[str]) -> str | None:
    """The longest entry that *path* is or is below."""
    rows = [row for row in limits if path == row or path.startswith(f"{row}/")]
    return max(rows, key=len, default=None)


def count(found: Iterable[Finding], limits: dict[str, Limit]) -> dict[str, Limit]:
    counts = Counter((row_of(each.path, limits), each.kind == LONG) for each in found)
    return {row: Limit(counts[row, False], counts[row, True]) for row in limits}


def verdict(limits: dict[str, Limit], found: list[Finding], exceptions: int) -> tuple[str, ...]:
    """The rows that differ from the table, each with what to do; empty if all is well."""
    lines = []
    for row, now in count(found, limits).items():
        for kind, limit, left in zip(("phrase", "long sentence"), limits[row], now, strict=True):
            counted = f"{row}: {left} {kind}{'' if left == 1 else 's'}"
            if left > limit:
                show = f"`python .ci/english.py --show {row}` lists them"
                lines.append(f"{counted}, {limit} allowed. Rewrite the new ones; {show}.")
            elif left < limit:
                lower = "Run `python .ci/english.py --lower` and commit .ci/english.txt"
                lines.append(f"{counted}, fewer than the {limit} in the table. {lower}.")
    if exceptions > MOST_EXCEPTIONS:
        lines.append(f"{exceptions} lines with `{EXCEPTION}`, {MOST_EXCEPTIONS} allowed. Rewrite some of them.")
    return tuple(lines)


def lowered(limits: dict[str, Limit], found: list[Finding]) -> dict[str, Limit]:
    counts = count(found, limits)
    return {row: Limit(*map(min, limit, counts[row])) for row, limit in limits.items()}


def texts(rows: Iterable[str]) -> dict[str, str]:
    """The Markdown and Python files of *rows* that Git knows or would add, by their path."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *rows]
    names = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout.split("\0")
    paths = sorted({name for name in names if name.endswith((".py", ".md")) and (ROOT / name).exists()})
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}


def main(arguments: list[str]) -> int:
    limits = read_table(TABLE.read_text(encoding="utf-8"))
    shown = arguments[1:] if arguments[:1] == ["--show"] else []
    sources = texts(shown or limits)
    found = [each for path, source in sources.items() for each in findings(path, source)]
    if shown:
        print(*found, sep="\n")
        return 0
    if arguments == ["--lower"]:
        limits = lowered(limits, found)
        TABLE.write_text(table_text(limits), encoding="utf-8")
    wrong = verdict(limits, found, sum(source.count(EXCEPTION) for source in sources.values()))
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

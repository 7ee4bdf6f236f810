"""Search for sentences that are hard to understand, by the mechanical rules of CONTRIBUTING.

Docstrings, comments, help texts, Markdown, and the comments of YAML, HTML and JavaScript are read. A text in backquotes is code
and is skipped in Markdown.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

WORDS_MAX = 32
"""Number of words that a sentence may have."""
SUFFIXES = {".py", ".md", ".yaml", ".yml", ".tpl", ".html", ".js"}
HELP_ARGUMENTS = {"help", "description", "hint", "detail", "epilog", "short_help", "title"}
DIRECTIVE = re.compile(r"#( type:| noqa| fmt:|!)")
FRAGMENT = re.compile(
    r"(Of|As|By|Whether|What|Who|Whose|Whoever|Which|Where|How|In|From|For|The same|Because|So|Or|And|Not|Nobody|Anybody|Without|Told"
    r"|Also|With|To be)\b"
)
ADDRESSEES = (
    *(
        "users",
        "user",
        "tenant",
        "tenants",
        "people",
        "person",
        "team",
        "engineer",
        "operator",
        "administrator",
    ),
    *("newcomer", "for", "everyone", "anyone"),
)
PERSON = re.compile(
    "".join(rf"(?<!{word} )" for word in ADDRESSEES)
    + r"\b(who|whose|whoever|whom|nobody|everybody|somebody|anybody|him|his)\b",
    re.IGNORECASE,
)
WORD_RULES = {
    "a person's pronoun for a thing": PERSON,
    "tell: say send, report, return, print or show": re.compile(
        r"\b(tell|tells|told|telling)\b", re.IGNORECASE
    ),
    "an archaic word": re.compile(
        r"\b(anew|thereby|thereof|whereof|fares?|fared|beside|be it|at will|come to nothing|to nothing)\b",
        re.IGNORECASE,
    ),
    "so many: say this many, or as many as": re.compile(
        r"\bso (many|much|long|often|far)\b(?! (that|as))", re.IGNORECASE
    ),
    "a for per": re.compile(
        r"\bone an? (node|class|host|cycle|stream|query|unit|tenant|machine|lane|cluster|reader|second)\b",
        re.IGNORECASE,
    ),
    "an idiom": re.compile(
        r"\b(comes?|came) to(?! (the|an end))\b|\b(goes|go|went) on\b|\bis none\b|\bof its own accord\b|\bhad been said\b"
        r"|\bis (known|told|said|asked) of\b",
        re.IGNORECASE,
    ),
}
LISTED = re.compile(r"(?m)^\s*[-|*].*$|^ {4,}.*$")


@dataclass(frozen=True)
class Text:
    """Text in a file that is meant for people, such as a docstring, a comment or a message."""

    line: int
    words: str
    begins_alone: bool = False
    """True for docstrings and help texts, which must not continue a name."""


def findings(path: str, source: str) -> Iterator[str]:
    """Yield `path:line: rule: text` for each place that breaks a rule."""
    for text in texts(path, source):
        if text.begins_alone and FRAGMENT.match(text.words) and not text.words.rstrip().endswith("?"):
            yield f"{path}:{text.line}: a fragment: {text.words.splitlines()[0]}"
        for number, line in enumerate(text.words.splitlines()):
            for rule, pattern in WORD_RULES.items():
                if pattern.search(line):
                    yield f"{path}:{text.line + number}: {rule}: {line.strip()}"
        joined = " ".join(LISTED.sub(".", text.words).split())
        for sentence in re.split(r"(?<=[.!?;:])\s", joined):
            if len(sentence.split()) > WORDS_MAX:
                yield f"{path}:{text.line}: a sentence of more than {WORDS_MAX} words: {sentence}"


def texts(path: str, source: str) -> Iterator[Text]:
    """Yield all texts in a file that are meant for people."""
    match PurePosixPath(path).suffix:
        case ".py":
            yield from python_texts(source)
        case ".md":
            yield from markdown_texts(source)
        case _:
            yield from comment_texts(source)


def python_texts(source: str) -> Iterator[Text]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                doc = ast.get_docstring(node)
                if doc:
                    yield Text(node.body[0].lineno, doc, begins_alone=True)
            case ast.keyword(arg=name, value=ast.Constant(value=str(words))) if name in HELP_ARGUMENTS:
                yield Text(node.value.lineno, words, begins_alone=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not DIRECTIVE.match(token.string):
            yield Text(token.start[0], token.string.lstrip("#:- ").strip())


def markdown_texts(source: str) -> Iterator[Text]:
    in_code = False
    for number, line in enumerate(source.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and line.strip() and not line.startswith(("|--", "    ")):
            yield Text(number, re.sub(r"`[^`]*`", "X", line.strip()))


def comment_texts(source: str) -> Iterator[Text]:
    for number, line in enumerate(source.splitlines(), start=1):
        mark = re.search(r"(?:^|\s)(?:#|//)\s?(.*)|\b(?:description|summary|help|title)\b\"?:\s*(.*)", line)
        if mark and (mark[1] or mark[2]):
            yield Text(number, (mark[1] or mark[2]).strip())

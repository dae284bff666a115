// Runs a command of a cell (cell.h), in Python, inside the sandbox.
//
// Threads: data.
#pragma once

#include <string_view>

namespace membrane::service::e2b {

inline constexpr std::string_view kCommandFunction = "__import__('sys').ipython_command";

inline constexpr std::string_view kIpythonCommands = R"python(
import importlib.metadata
import importlib.util
import re
import shlex
import sys

_PIP = re.compile(r"(?:(?:python[\d.]*|\{sys\.executable\})\s+-m\s+|uv\s+)?pip[\d.]*\s+(\S+)(.*)", re.DOTALL)
_REDIRECTION = re.compile(r"[\d&]?>>?(.*)", re.DOTALL)
_NEEDS_LINUX = "needs a sandbox of the linux kind; this one is an interpreter in WebAssembly. docs/e2b.md lists what works here."
_HOW = ("pip cannot download packages here. They are chosen when a sandbox is created (\"packages\" of POST /v1/sandboxes, then "
        "Sandbox.connect()) or by a template that was made of such a sandbox.")
_TAKE_A_VALUE = {"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--trusted-host", "--timeout", "--retries",
                 "--progress-bar", "--cache-dir"}
_ASK_FOR_MORE = {"-r", "--requirement", "-e", "--editable", "-t", "--target", "--prefix", "--root", "-c", "--constraint"}


def run(line):
    command = line.strip().lstrip("!%").strip()
    pip = _PIP.fullmatch(command)
    if pip and not line.startswith("%%"):
        if pip[1] != "install":
            raise RuntimeError(f"pip {pip[1]} {_NEEDS_LINUX}")
        return install(words_of(pip[2]))
    name = command.split()[0] if command.split() else ""
    if line.startswith("%matplotlib") and command in ("matplotlib", "matplotlib inline"):
        return None  # that is how figures are shown
    if line.startswith("!"):
        raise RuntimeError(f"A command of a shell (!{name}) {_NEEDS_LINUX}")
    raise RuntimeError(f"A command of IPython (%{'%' * line.startswith('%%')}{name}) {_NEEDS_LINUX}")


def words_of(text):
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    kept = []
    words.reverse()
    while words:
        word = words.pop()
        redirection = _REDIRECTION.fullmatch(word)
        if word in ("&&", "||", "|", ";", "&") or word.endswith(";"):
            raise RuntimeError(f"A command with {word} {_NEEDS_LINUX}")
        if redirection and not redirection[1] and words:
            words.pop()  # where its output was to go
        elif word in _ASK_FOR_MORE or word.partition("=")[0] in _ASK_FOR_MORE:
            raise RuntimeError(f"pip install {word} is not supported. {_HOW}")
        elif word in _TAKE_A_VALUE and words:
            words.pop()
        elif not redirection and not word.startswith("-"):
            kept.append(word)
    return kept


def install(words):
    missing = [problem for problem in map(problem_of, words) if problem]
    if missing:
        raise RuntimeError(f"{'; '.join(missing)}. {_HOW}")


def problem_of(word):
    from packaging.requirements import InvalidRequirement, Requirement
    try:
        wanted = Requirement(word)
    except InvalidRequirement:
        return f"{word} is not a package name"
    if wanted.marker and not wanted.marker.evaluate():
        return print(f"Ignoring {wanted.name}: markers '{wanted.marker}' don't match your environment")
    module = wanted.name.replace("-", "_")
    try:
        version = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        if wanted.specifier or not module.isidentifier() or importlib.util.find_spec(module) is None:
            return f"{word} is not in this sandbox"
        return print(f"Requirement already satisfied: {word}")
    if not wanted.specifier.contains(version, prereleases=True):
        return f"{word} is not in this sandbox, which has {wanted.name} {version}"
    return print(f"Requirement already satisfied: {word} ({version})")


sys.ipython_command = run
)python";

}  // namespace membrane::service::e2b

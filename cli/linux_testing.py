"""For tests of the linux kind: a small image, made of this machine's own programs and what they load; a terminal."""

import fcntl
import os
import pty
import re
import select
import shutil
import ssl
import struct
import subprocess
import tarfile
import termios
import time
from pathlib import Path

ENDS_S = 30

PROGRAMS = ("sh bash dash cat ls echo true false env printf seq sort uniq wc head tail tr cut tee sed grep awk find xargs mkdir "
            "rmdir rm cp mv ln touch chmod stat readlink test expr sleep date id uname pwd basename dirname md5sum sha256sum od "
            "stty dd cmp script split csplit expand unexpand fmt sha1sum sha512sum cksum sum b2sum base64 base32 basenc realpath truncate fallocate "
            "factor numfmt shuf whoami groups arch tty printenv pathchk sync install link unlink mknod chroot hostid users who "
            "tsort ptx pr chown chgrp dir nohup setsid logname pinky getfattr setfattr patch make node bzip2 bzcat xz xzcat cpio "
            "diff comm join paste tac rev nl fold mktemp mkfifo nproc timeout kill nice df du yes python3 perl gcc as ld git git-upload-pack git-receive-pack tar gzip gunzip zcat").split()
# What Python needs of its library, and nothing that takes long to pack.
LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "tkinter", "__pycache__", "turtledemo", "ensurepip", "site-packages",
            "dist-packages"}


def encrypt(server, folder):
    """The server speaks TLS as localhost from now on. The file of its certificate, which clients must trust."""
    key, certificate = Path(folder) / "key.pem", Path(folder) / "cert.pem"
    if not certificate.exists():
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out",
                        str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # of a client that has left
    return certificate


class Terminal:
    """A command on a terminal of its own; its session leader is the command, as under a person's terminal."""

    def __init__(self, words, environment, rows=24, columns=80):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.modes = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(words, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=environment,
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.seen = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def read_some(self, until):
        ready, _, _ = select.select([self.master], [], [], max(0, until - time.monotonic()))
        if not ready:
            raise AssertionError(f"nothing came; before it: {self.seen!r}")
        self.seen += os.read(self.master, 65536).decode(errors="replace")

    def expect(self, pattern):
        """Waits for it, and drops the output up to its end."""
        until = time.monotonic() + ENDS_S
        while not (found := re.search(pattern, self.seen)):
            self.read_some(until)
        self.seen = self.seen[found.end():]
        return found

    def end(self):
        """The exit code. What is printed is read on, so that nobody waits for room."""
        until = time.monotonic() + ENDS_S
        while self.process.poll() is None:
            if select.select([self.master], [], [], 0.02)[0]:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
            if time.monotonic() > until:
                raise AssertionError(f"it does not end: {self.seen!r}")
        while select.select([self.master], [], [], 0)[0]:
            self.seen += os.read(self.master, 65536).decode(errors="replace")
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


def libraries_of(program: str) -> list[str]:
    """What the program loads, with its loader."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True)
    if listed.returncode != 0:
        return []
    return [word for line in listed.stdout.splitlines() for word in line.split() if word.startswith("/")]


def interpreter(program: str) -> str | None:
    """The interpreter of a script."""
    with open(program, "rb") as file:
        first = file.readline(200)
    return first[2:].split()[0].decode() if first.startswith(b"#!") else None


class Image:
    def __init__(self, path: Path):
        self.tar = tarfile.open(path, "w")
        self.added: set[str] = set()
        for name in ("tmp", "root", "proc", "sys", "dev", "etc", "usr/bin", "var/tmp"):
            self.directory(name)
        for name in ("bin", "sbin", "lib", "lib64"):
            self.link(name, f"usr/{name}")
        self.text("etc/passwd", "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n")
        self.text("etc/hosts", "127.0.0.1 localhost\n")
        self.text("etc/group", "root:x:0:\nnogroup:x:65534:\n")

    def info(self, name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.type, info.mode = kind, mode
        return info

    def directory(self, name: str) -> None:
        self.tar.addfile(self.info(name, tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755))

    def link(self, name: str, target: str) -> None:
        info = self.info(name, tarfile.SYMTYPE, 0o777)
        info.linkname = target
        self.tar.addfile(info)

    def text(self, name: str, text: str, mode: int = 0o644) -> None:
        import io
        info = self.info(name, tarfile.REGTYPE, mode)
        info.size = len(text.encode())
        self.tar.addfile(info, io.BytesIO(text.encode()))

    def file(self, path: str, name: str | None = None) -> None:
        """A file of this machine, with its links followed, where it exists here."""
        place = (name or path).lstrip("/")
        for top in ("bin/", "sbin/", "lib/", "lib64/"):
            if place.startswith(top):
                place = "usr/" + place
        if place in self.added:
            return
        self.added.add(place)
        with open(path, "rb") as file:
            info = self.info(place, tarfile.REGTYPE, os.stat(path).st_mode & 0o777)
            info.size = os.stat(path).st_size
            self.tar.addfile(info, file)

    def program(self, name: str) -> bool:
        path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
        if path is None:
            return False
        self.file(path, f"/usr/bin/{name}")
        other = interpreter(path)
        for each in [*libraries_of(path), *(libraries_of(other) + [other] if other else [])]:
            if Path(each).is_file():
                self.file(each)
        return True

    def tree(self, folder: Path) -> None:
        for base, folders, files in os.walk(folder):
            folders[:] = sorted(set(folders) - LEFT_OUT)
            for each in sorted(files):
                path = os.path.join(base, each)
                if os.path.isfile(path):
                    self.file(path)
                    if each.endswith(".so"):
                        for library in libraries_of(path):
                            if os.path.isfile(library):
                                self.file(library)


def make_image(path: Path, programs: list[str] = PROGRAMS) -> set[str]:
    """Writes the tarball; returns the programs that it has."""
    image = Image(path)
    has = {name for name in programs if image.program(name)}
    if "python3" in has:
        library = subprocess.run(["/usr/bin/python3", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"],
                                 capture_output=True, text=True).stdout.strip()
        if library:
            image.tree(Path(library))
    image.tar.close()
    return has

"""Processes and sockets, which do not exist here. The errors say what to use instead."""

import errno
import hashlib
import multiprocessing
import multiprocessing.context
import multiprocessing.pool
import multiprocessing.process
import os
import shlex
import shutil
import signal
import socket
import subprocess

from membrane import _pools

_INSTEAD = {
    "pip": "packages cannot be installed; import what is here, or write what is missing",
    "curl": "use requests.get or urllib.request.urlopen, and a grant of the URL",
    "wget": "use requests.get or urllib.request.urlopen, and a grant of the URL",
    "python": "call the code in this program: import it, or use runpy.run_path",
    "ls": "use os.listdir, os.scandir or glob.glob",
    "find": "use os.walk or pathlib.Path.rglob",
    "cat": "use open(path).read()",
    "head": "use open(path), and read as many lines as wanted",
    "tail": "use open(path).readlines()[-10:]",
    "wc": "use len(open(path).readlines())",
    "grep": "use re over the lines of open(path)",
    "sort": "use sorted(open(path))",
    "mkdir": "use os.makedirs",
    "rm": "use os.remove or shutil.rmtree",
    "cp": "use shutil.copy or shutil.copytree",
    "mv": "use shutil.move",
    "echo": "use print",
    "pwd": "use os.getcwd()",
    "date": "use datetime.datetime.now()",
    "tar": "use tarfile",
    "unzip": "use zipfile",
    "zip": "use zipfile",
    "gzip": "use gzip",
    "sqlite3": "use the module sqlite3",
}
_SAME_WORD = {"pip3": "pip", "python3": "python", "apt": "pip", "apt-get": "pip", "conda": "pip", "uv": "pip"}
_ELSE = "do it in Python: os, shutil and pathlib for files, requests for HTTP"

NO_SOCKETS = ("there are no sockets here: use requests or urllib.request for http and https, which go through the capability "
               "http by the policy's grants")
_NO_PROCESSES = "there are no processes here"
_FOR_THREADS = {
    "Queue": "queue.Queue", "JoinableQueue": "queue.Queue", "SimpleQueue": "queue.SimpleQueue", "Lock": "threading.Lock",
    "RLock": "threading.RLock", "Condition": "threading.Condition", "Semaphore": "threading.Semaphore",
    "BoundedSemaphore": "threading.BoundedSemaphore", "Event": "threading.Event", "Barrier": "threading.Barrier",
    "Value": "a variable", "Array": "a list", "RawValue": "a variable", "RawArray": "a list", "Manager": "dict and list",
    "Pipe": "two queue.Queue",
}


def command_error(asked, command):
    """`command`: a line of a shell, or words."""
    command = _words_of(command)
    return OSError(errno.ENOSYS, f"{_NO_PROCESSES}, so {asked} cannot run {_quoted(command)}; {_instead_of(command)}")


def _quoted(command):
    text = command if isinstance(command, str) else " ".join(str(word) for word in command)
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _instead_of(command):
    try:
        words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    except ValueError:
        words = []
    if "pip" in words[1:3]:  # python -m pip
        return _INSTEAD["pip"]
    word = os.path.basename(words[0]) if words else ""
    return _INSTEAD.get(_SAME_WORD.get(word, word), _ELSE)


def _words_of(command):
    if isinstance(command, (str, bytes, os.PathLike)):
        return os.fsdecode(command)
    return [os.fsdecode(word) for word in command]


def _popen(self, args, *_, **__):
    raise command_error("subprocess", args)


def system(command):
    raise command_error("os.system", command)


def popen(cmd, mode="r", buffering=-1):
    raise command_error("os.popen", cmd)


def _missing(name):
    """os.__getattr__: what is not there stays not there, since libraries look for it; but the error says why."""
    if name in ("fork", "forkpty", "kill", "killpg", "wait", "waitpid", "posix_spawn", "posix_spawnp") or (
            name.startswith(("exec", "spawn")) and len(name) < 9):
        raise AttributeError(f"there is no os.{name}: {_NO_PROCESSES}. Call a function, or start it in a threading.Thread")
    if name == "pipe":
        raise AttributeError(f"there is no os.pipe: {_NO_PROCESSES}. Between threads use queue.Queue, for bytes io.BytesIO",
                             name=name, obj=None)  # None: so that no similar name is suggested
    raise AttributeError(f"module 'os' has no attribute {name!r}", name=name, obj=os)


_NO_SIGNALS = "no signal arrives here. Wait with a timeout (asyncio.timeout, Thread.join), and bound a run by its limits"
_WHY_MISSING = {
    (hashlib, "scrypt"): "the module has no OpenSSL here. Use hashlib.pbkdf2_hmac",
    (shutil, "disk_usage"): "a program does not see the size of its disk. A write that finds no room is an OSError",
    (signal, "alarm"): _NO_SIGNALS,
    (signal, "setitimer"): _NO_SIGNALS,
}


def _explaining(module):
    """A module's __getattr__, as os has one."""
    before = vars(module).get("__getattr__")

    def missing(name):
        if why := _WHY_MISSING.get((module, name)):
            raise AttributeError(f"there is no {module.__name__}.{name}: {why}", name=name, obj=None)
        if before:
            return before(name)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)

    missing.__module__, missing.__name__, missing.__qualname__ = module.__name__, "__getattr__", "__getattr__"
    return missing


def _start(self):
    raise OSError(errno.ENOSYS, f"{_NO_PROCESSES}: start a threading.Thread, which takes the same target and args; "
                  "multiprocessing.Pool and concurrent.futures.ProcessPoolExecutor work, in this process")


def _refused(name):
    def refuse(self=None, *_, **__):
        raise OSError(errno.ENOSYS, f"multiprocessing.{name} is for processes, and {_NO_PROCESSES}: with threads use "
                      f"{_FOR_THREADS[name]}")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def _pool(self=None, processes=None, initializer=None, initargs=(), maxtasksperchild=None):
    return _pools.Pool(processes, initializer, initargs)


def _make_pool(processes=None, initializer=None, initargs=(), maxtasksperchild=None):
    return _pools.Pool(processes, initializer, initargs)


def _no_socket(*_, **__):
    raise OSError(errno.ENOTSUP, NO_SOCKETS)


def _replacements():
    """(what has it, its name, what is put there)"""
    context = multiprocessing.context.BaseContext
    yield os, "system", system
    yield os, "popen", popen
    yield os, "__getattr__", _missing
    for module in (hashlib, shutil, signal):
        yield module, "__getattr__", _explaining(module)
    yield subprocess.Popen, "__init__", _popen
    yield socket.socket, "__init__", _no_socket
    for name in ("create_connection", "create_server", "getaddrinfo", "gethostbyname", "gethostbyname_ex", "socketpair"):
        yield socket, name, _no_socket
    yield multiprocessing.process.BaseProcess, "start", _start
    for name in _FOR_THREADS:
        yield context, name, _refused(name)
        yield multiprocessing, name, _refused(name)
    yield context, "Pool", _pool
    yield multiprocessing, "Pool", _make_pool
    yield multiprocessing.pool, "Pool", _pools.Pool
    yield multiprocessing.pool, "ThreadPool", _pools.ThreadPool
    yield multiprocessing.pool, "AsyncResult", _pools.AsyncResult
    yield multiprocessing.pool, "ApplyResult", _pools.AsyncResult


def install():
    """Gives a function that takes it back, for tests."""
    return _pools.put_in_place(_replacements())

"""Engines that come as Python packages, for `tools/bench peers`; for the meaning of the lines see
membrane_peer.cc.

    python_peer.py wasmtime|wasmtime-fuel|wasm3
"""

import struct
import sys
import time
from pathlib import Path

FUEL = 10**15


def with_number(binary: bytes, number: int) -> bytes:
    return binary + bytes([0, 6, 1, ord("n")]) + struct.pack("<I", number)


def bits(value) -> int:
    if isinstance(value, float):
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    return value & (2**64 - 1)


class Wasmtime:
    """Cranelift, in one thread, without a cache."""

    def __init__(self, fuel: bool):
        import wasmtime
        self.wasmtime = wasmtime
        config = wasmtime.Config()
        config.strategy = "cranelift"
        config.parallel_compilation = False
        config.consume_fuel = fuel
        self.fuel = fuel
        self.engine = wasmtime.Engine(config)
        self.text = wasmtime.wat2wasm

    def compile(self, binary: bytes):
        return self.wasmtime.Module(self.engine, binary)

    def instantiate(self, module):
        store = self.wasmtime.Store(self.engine)
        if self.fuel:
            store.set_fuel(FUEL)
        run = self.wasmtime.Instance(store, module, []).exports(store)["run"]
        return lambda *arguments: run(store, *arguments)


class Wasm3:
    """Translates a function when it is first called: there is no compiling of a whole module."""

    def __init__(self):
        import wasm3
        self.wasm3 = wasm3
        self.environment = wasm3.Environment()

    def instantiate(self, binary: bytes):
        runtime = self.environment.new_runtime(1 << 20)
        runtime.load(self.environment.parse_module(binary))
        return runtime.find_function("run")


def serve(peer) -> None:
    compiles = hasattr(peer, "compile")
    compile_ = peer.compile if compiles else lambda binary: binary

    def repeat(times: int, once) -> str:
        begin = time.process_time()
        for _ in range(times):
            if once() != 4:
                return "no the result is not 4"
        return f"ok {(time.process_time() - begin) / times:.9f}"

    def answer(task: str, *words: str) -> str:
        if task == "tiny":
            binary = Path(words[0]).read_bytes()
            return repeat(int(words[1]), lambda: peer.instantiate(compile_(binary))())
        if task == "text" and hasattr(peer, "text"):
            text = Path(words[0]).read_text()
            return repeat(int(words[1]), lambda: peer.instantiate(compile_(peer.text(text)))())
        if task == "warm" and compiles:
            module = compile_(Path(words[0]).read_bytes())
            return repeat(int(words[1]), lambda: peer.instantiate(module)())
        if task == "compute":
            name, n, checksum, directory = words
            run = peer.instantiate(compile_(Path(directory, f"{name}.wasm").read_bytes()))
            begin = time.process_time()
            result = run(int(n))
            used = time.process_time() - begin
            return f"ok {used:.9f}" if bits(result) == int(checksum, 16) else "no wrong checksum"
        if task == "compile" and compiles:
            binary = with_number(Path(words[0]).read_bytes(), int(words[1]))
            begin = time.process_time()
            compile_(binary)
            return f"ok {time.process_time() - begin:.9f}"
        return "no such task"

    for line in sys.stdin:
        try:
            print(answer(*line.split()), flush=True)
        except Exception as error:  # whatever the package throws is its answer
            print("no", str(error).strip().split("\n")[0], flush=True)


if __name__ == "__main__":
    who = sys.argv[1]
    serve(Wasm3() if who == "wasm3" else Wasmtime(fuel=who.endswith("-fuel")))

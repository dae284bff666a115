"""Runs a WASI program in Wasmtime, as a process of its own.

    wasmtime_peer.py no-fuel|fuel PROGRAM [NAME=VALUE] [DIRECTORY]
"""

import sys

import wasmtime

kind, program, *rest = sys.argv[1:]
config = wasmtime.Config()
config.strategy = "cranelift"
config.parallel_compilation = False
config.consume_fuel = kind == "fuel"
engine = wasmtime.Engine(config)
linker = wasmtime.Linker(engine)
linker.define_wasi()
store = wasmtime.Store(engine)
if kind == "fuel":
    store.set_fuel(10**15)
wasi = wasmtime.WasiConfig()
wasi.inherit_stdout()
wasi.inherit_stderr()
wasi.argv = ["program", *[word for word in rest if word.startswith("/script")]]
for word in rest:
    if "=" in word:
        wasi.env = [tuple(word.split("=", 1))]
    elif not word.startswith("/script"):
        wasi.preopen_dir(word, "/")
store.set_wasi(wasi)
instance = linker.instantiate(store, wasmtime.Module.from_file(engine, program))
try:
    instance.exports(store)["_start"](store)
except wasmtime.ExitTrap as ended:
    sys.exit(ended.code)

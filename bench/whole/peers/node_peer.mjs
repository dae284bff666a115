// Runs a WASI program in Node, as a process of its own: node_peer.mjs PROGRAM [NAME=VALUE] [DIRECTORY] [/script…]
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [program, ...rest] = process.argv.slice(2);
const wasi = new WASI({
  version: "preview1",
  args: ["program", ...rest.filter((word) => word.startsWith("/script"))],
  env: Object.fromEntries(rest.filter((word) => word.includes("=")).map((word) => word.split("="))),
  preopens: Object.fromEntries(
    rest.filter((word) => !word.includes("=") && !word.startsWith("/script")).map((word) => ["/", word])),
});
const { instance } = await WebAssembly.instantiate(await readFile(program), wasi.getImportObject());
process.exitCode = wasi.start(instance);

// Node's side of `tools/bench-languages`: Pyodide runs a file (or, after -e, text). On standard error it says what CPU time
// that took, for Pyodide's start is more than the programs are.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [, , directory, first, text] = process.argv;
const { loadPyodide } = await import(pathToFileURL(`${directory}/pyodide.mjs`).href);
const python = await loadPyodide();
const code = first === "-e" ? text : readFileSync(first, "utf8");
const begin = process.cpuUsage();
python.runPython(code);
const used = process.cpuUsage(begin);
console.error(`cpu ${(used.user + used.system) / 1e6}`);

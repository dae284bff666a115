// Node's side of `tools/bench peers`; for the meaning of the lines see membrane_peer.cc. The tier is chosen by
// flags of the command line.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

let unlike = 0;
// Modules with equal bytes share their code: each gets a section of its own.
function withNumber(bytes, number) {
  const section = [0, 6, 1, 0x6e, number & 255, (number >> 8) & 255, (number >> 16) & 255, number >> 24];
  const out = new Uint8Array(bytes.length + section.length);
  out.set(bytes);
  out.set(section, bytes.length);
  return out;
}
function seconds(begin) {
  const used = process.cpuUsage(begin);
  return (used.user + used.system) / 1e6;
}
function bits(value) {
  if (typeof value === "bigint") return BigInt.asUintN(64, value);
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  return view.getBigUint64(0);
}
const run = (module) => new WebAssembly.Instance(module).exports.run;

const tasks = {
  tiny(path, times) {
    const bytes = readFileSync(path);
    const binaries = Array.from({ length: times }, () => withNumber(bytes, ++unlike));
    const begin = process.cpuUsage();
    for (const binary of binaries) if (run(new WebAssembly.Module(binary))() !== 4) return "no the result is not 4";
    return `ok ${seconds(begin) / times}`;
  },
  warm(path, times) {
    const module = new WebAssembly.Module(readFileSync(path));
    const begin = process.cpuUsage();
    for (let i = 0; i < times; ++i) if (run(module)() !== 4) return "no the result is not 4";
    return `ok ${seconds(begin) / times}`;
  },
  compute(name, n, checksum, directory) {
    const main = run(new WebAssembly.Module(readFileSync(`${directory}/${name}.wasm`)));
    const begin = process.cpuUsage();
    const result = main(Number(n));
    const used = seconds(begin);
    return bits(result) === BigInt(`0x${checksum}`) ? `ok ${used}` : "no wrong checksum";
  },
  compile(path, number) {
    const bytes = withNumber(readFileSync(path), Number(number));
    const begin = process.cpuUsage();
    new WebAssembly.Module(bytes);
    return `ok ${seconds(begin)}`;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [task, ...words] = line.split(" ");
  let answer = "no such task";
  try {
    if (tasks[task]) answer = tasks[task](...words);
  } catch (error) {
    answer = `no ${String(error.message).split("\n")[0]}`;
  }
  process.stdout.write(`${answer}\n`);
}

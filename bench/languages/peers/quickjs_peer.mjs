// Node's side of `tools/bench-languages`: quickjs-emscripten evaluates text, and its value is printed.
import { pathToFileURL } from "node:url";

const [, , directory, text] = process.argv;
const { getQuickJS } = await import(pathToFileURL(`${directory}/dist/index.mjs`).href);
const context = (await getQuickJS()).newContext();
const value = context.unwrapResult(context.evalCode(text));
console.log(context.dump(value));
value.dispose();
context.dispose();

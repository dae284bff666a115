// The prelude's files in order, and a host for tests: answers from tables, files in a directory.
import * as fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const folder = path.join(here, "..");
export const kNode = fs
  .readdirSync(path.join(folder, "node"), { recursive: true })
  .filter((name) => name.endsWith(".js"))
  .sort()
  .map((name) => `node/${name}`);
export const kFiles = [
  "inspect.js",
  "url.js",
  "web.js",
  "streams.js",
  "bodies.js",
  "fetch.js",
  "rewrite.js",
  ...kNode,
  "hints.js",
  "types.js",
  "builtins.js",
  "resolve.js",
  "modules.js",
  "zone.js",
  "intl/options.js",
  "intl/numbers.js",
  "intl/zone_names.js",
  "intl/dates.js",
  "intl/texts.js",
  "intl.js",
  "process.js",
  "session.js",
];
// A file of the installed language: the module of QuickJS, and the libraries that are evaluated before the prelude. undefined where
// MEMBRANE_LANGUAGES names no directory that has it.
export function languageFile(name) {
  const file = path.join(process.env.MEMBRANE_LANGUAGES ?? "", "js", name);
  return process.env.MEMBRANE_LANGUAGES && fs.existsSync(file) ? file : undefined;
}
export const kTimeZones = languageFile("zones.js");
export const kLibraries = [languageFile("typescript.js"), kTimeZones].filter(Boolean);
export const source = (name) => fs.readFileSync(path.join(folder, name), "utf8");

// What QuickJS has, but not every Node.
export const kNewerThanNode = `
Uint8Array.fromBase64 ??= (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
Uint8Array.fromHex ??= (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
Uint8Array.prototype.toBase64 ??= function () { return btoa(Array.from(this, (byte) => String.fromCharCode(byte)).join("")); };
Uint8Array.prototype.toHex ??= function () { return Array.from(this, (byte) => byte.toString(16).padStart(2, "0")).join(""); };`;

// Node does not expose the state of a promise.
export const ofPromise = () => undefined;

// The door's answers about files: like the host, over a directory that is the program's root.
export class Files {
  constructor(root) {
    this.root = root;
    this.descriptors = new Map();
    this.next = 4;
  }
  number(descriptor) {
    return this.descriptors.get(descriptor) ?? 0x7fffffff;
  }
  at(guest) {
    return path.join(this.root, guest);
  }
  answer(request) {
    try {
      return { value: this[request.files](request) ?? null };
    } catch (error) {
      return { error: { errno: error.code ?? "EIO", message: "" } };
    }
  }
  file(name) {
    try {
      return { value: fs.readFileSync(this.at(name), "utf8") };
    } catch (error) {
      return { error: { errno: error.code, message: `${name}: ${error.code}` } };
    }
  }
}
const kindOf = (stat) =>
  stat.isFile() ? "file" : stat.isDirectory() ? "directory" : stat.isSymbolicLink() ? "link" : "device";
const methods = {
  open({ path: guest, write, create, exclusive, truncate, append }) {
    const c = fs.constants;
    const flags =
      (write ? c.O_RDWR : c.O_RDONLY) |
      (create && c.O_CREAT) |
      (exclusive && c.O_EXCL) |
      (truncate && c.O_TRUNC) |
      (append && c.O_APPEND);
    this.descriptors.set(this.next, fs.openSync(this.at(guest), flags));
    return this.next++;
  },
  close({ descriptor }) {
    fs.closeSync(this.number(descriptor));
    this.descriptors.delete(descriptor);
  },
  read({ descriptor, count, offset }) {
    const bytes = Buffer.alloc(count);
    const got = fs.readSync(this.number(descriptor), bytes, 0, count, offset ?? null);
    return { base64: bytes.toString("base64", 0, got) };
  },
  write({ descriptor, bytes, offset }) {
    return fs.writeSync(this.number(descriptor), Buffer.from(bytes.base64, "base64"), 0, null, offset ?? null);
  },
  stat({ path: guest, descriptor, follow }) {
    const stat =
      guest === undefined
        ? fs.fstatSync(this.number(descriptor), { bigint: true })
        : (follow ? fs.statSync : fs.lstatSync)(this.at(guest), { bigint: true });
    return {
      type: kindOf(stat),
      size: Number(stat.size),
      links: Number(stat.nlink),
      device: 1,
      inode: String(stat.ino),
      accessed_ns: String(stat.atimeNs),
      modified_ns: String(stat.mtimeNs),
      changed_ns: String(stat.ctimeNs),
    };
  },
  list({ path: guest }) {
    return fs.readdirSync(this.at(guest), { withFileTypes: true }).map((entry) => [entry.name, kindOf(entry)]);
  },
  make_directory({ path: guest }) {
    fs.mkdirSync(this.at(guest));
  },
  remove_directory({ path: guest }) {
    fs.rmdirSync(this.at(guest));
  },
  unlink({ path: guest }) {
    fs.unlinkSync(this.at(guest));
  },
  rename({ path: guest, to }) {
    fs.renameSync(this.at(guest), this.at(to));
  },
  link({ path: guest, to }) {
    fs.linkSync(this.at(guest), this.at(to));
  },
  symlink({ target, path: guest }) {
    fs.symlinkSync(target, this.at(guest));
  },
  read_link({ path: guest }) {
    return fs.readlinkSync(this.at(guest));
  },
  resize({ descriptor, size }) {
    fs.ftruncateSync(this.number(descriptor), size);
  },
  set_times({ path: guest, accessed_ns, modified_ns }) {
    fs.utimesSync(this.at(guest), Number(accessed_ns) / 1e9, Number(modified_ns) / 1e9);
  },
};
for (const [name, method] of Object.entries(methods)) Files.prototype[name] = method;

// QuickJS as WebAssembly, as the host runs it: only the module's own exports and imports.
import { readFileSync } from "node:fs";
import { compress } from "./compress.mjs";

const COMPILE_ONLY = 1 << 5;
const ASYNC = 1 << 7;
const BACKTRACE_BARRIER = 1 << 6;

export class QuickJs {
  // `calls` has the host functions by name: they take strings, numbers or bytes, and return a string or nothing.
  static create(path, calls, { now = () => 0n } = {}) {
    const vm = new QuickJs();
    vm.calls = calls;
    vm.rejections = [];
    const wasi = {
      clock_time_get: (id, precision, at) => (vm.view().setBigUint64(at, now(), true), 0),
      fd_close: () => 8,
      fd_fdstat_get: () => 8,
      fd_seek: () => 8,
      fd_write: () => 8,
      random_get: (at, length) => (vm.bytes(at, length).fill(7), 0),
    };
    const env = {
      host_get_timezone_offset: () => 0,
      host_interrupt: () => 0,
      host_module_normalize: (base, name) => vm.modules ? vm.put(vm.modules("resolve", vm.cString(base), vm.cString(name)))[0] : 0,
      host_module_load: (name, lengthAt) => {
        if (!vm.modules) return 0;
        const [at, length] = vm.put(vm.modules("load", vm.cString(name)));
        vm.view().setUint32(lengthAt, length, true);
        return length ? at : 0;
      },
      host_promise_rejection: (promise, reason, handled) => void vm.rejections.push([promise, reason, handled]),
      host_call: (name, nameLength, self, count, values) => vm.hostCall(name, nameLength, count, values),
    };
    const module = new WebAssembly.Module(readFileSync(path));
    vm.e = new WebAssembly.Instance(module, { env, wasi_snapshot_preview1: wasi }).exports;
    vm.e._initialize();
    if (vm.e.qjs_init() !== 0) throw new Error("qjs_init");
    vm.e.qjs_set_promise_rejection_handler(1);
    vm.e.qjs_set_module_loader(1);
    return vm;
  }

  view() { return new DataView(this.e.memory.buffer); }
  cString(at) {
    const bytes = new Uint8Array(this.e.memory.buffer, at);
    return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
  }
  bytes(at, length) { return new Uint8Array(this.e.memory.buffer, at, length); }

  // Bytes followed by a 0, to be freed by wasm_free.
  put(text) {
    const bytes = new TextEncoder().encode(text);
    const at = this.e.wasm_malloc(bytes.length + 1);
    this.bytes(at, bytes.length).set(bytes);
    this.bytes(at + bytes.length, 1)[0] = 0;
    return [at, bytes.length];
  }

  // The string form of a value.
  text(value) {
    const out = this.e.wasm_malloc(4);
    const at = this.e.qjs_get_string_len(value, out);
    const text = at ? new TextDecoder().decode(this.bytes(at, this.view().getUint32(out, true))) : null;
    if (at) this.e.qjs_free_cstring(at);
    this.e.wasm_free(out);
    return text;
  }

  string(text) {
    const [at, length] = this.put(text);
    const value = this.e.qjs_new_string(at, length);
    this.e.wasm_free(at);
    return value;
  }

  // The bytes of a Uint8Array.
  bytesOf(value) {
    const at = this.e.wasm_malloc(16);
    const buffer = this.e.qjs_get_typed_array_buffer(value, at, at + 4, at + 8);
    const from = this.e.qjs_get_array_buffer(buffer, at + 12);
    const [offset, length] = [this.view().getUint32(at, true), this.view().getUint32(at + 4, true)];
    const bytes = this.bytes(from + offset, length).slice();
    this.e.qjs_free_value(buffer);
    this.e.wasm_free(at);
    return bytes;
  }
  newBytes(bytes) {
    const at = this.e.wasm_malloc(bytes.length || 1);
    this.bytes(at, bytes.length).set(bytes);
    const value = this.e.qjs_new_uint8_array(at, bytes.length);
    this.e.wasm_free(at);
    return value;
  }
  // The functions of the host whose arguments or results are not strings.
  own(called, count, values) {
    const box = (i) => i < count ? this.view().getUint32(values + 4 * i, true) : 0;
    if (called === "__membrane_utf8") return this.newBytes(new TextEncoder().encode(this.text(box(0))));
    if (called === "__membrane_text") {
      try {
        return this.string(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.bytesOf(box(0))));
      } catch {
        return this.e.qjs_dup_value(this.undefinedBox());
      }
    }
    if (called === "__membrane_compress") return this.newBytes(compress(this.e.qjs_get_float64(box(0)), this.bytesOf(box(1)), this.bytesOf(box(2))));
    if (called === "__membrane_promise") {
      if (!this.e.qjs_is_promise(box(0))) return this.e.qjs_dup_value(this.undefinedBox());
      if (count > 1) return this.e.qjs_promise_result(box(0));
      return this.string(["pending", "fulfilled", "rejected"][this.e.qjs_promise_state(box(0))]);
    }
    if (called !== "__membrane_evaluate") return undefined;
    const kind = box(2) && this.e.qjs_is_number(box(2)) ? this.e.qjs_get_float64(box(2)) : 0;
    const value = this.eval(this.text(box(0)), this.text(box(1)), [0, 1, 1 | COMPILE_ONLY][kind]);
    if (kind === 2 && !this.e.qjs_is_exception(value)) return this.e.qjs_dup_value(this.undefinedBox());
    if (this.e.qjs_is_promise(value) && this.e.qjs_promise_state(value) === 2) {
      this.e.qjs_promise_mark_as_handled(value);
      const reason = this.e.qjs_promise_result(value);
      this.e.qjs_throw(reason);
      return 0;
    }
    if (!this.e.qjs_is_exception(value)) return value;
    this.e.qjs_throw(this.thrown());
    return 0;
  }

  hostCall(name, nameLength, count, values) {
    const called = new TextDecoder().decode(this.bytes(name, nameLength));
    const made = this.own(called, count, values);
    if (made !== undefined) return made;
    const given = [];
    for (let i = 0; i < count; ++i) {
      const value = this.view().getUint32(values + 4 * i, true);
      const isText = this.e.qjs_is_string(value);
      given.push(this.e.qjs_is_number(value) ? this.e.qjs_get_float64(value) : isText ? this.text(value) : this.bytesOf(value));
    }
    const answer = this.calls[called](...given);
    return answer === undefined ? this.e.qjs_dup_value(this.undefinedBox()) : this.string(answer);
  }
  undefinedBox() { return (this.undefinedValue ??= this.e.qjs_get_undefined()); }

  define(name) {
    const [at, length] = this.put(name);
    const made = this.e.qjs_new_host_function(at, length, 0);
    this.e.wasm_free(at);
    const global = this.e.qjs_get_global();
    const [key] = this.put(name);
    this.e.qjs_set_prop_string(global, key, made);
    for (const value of [made, global]) this.e.qjs_free_value(value);
    this.e.wasm_free(key);
  }

  eval(code, name, flags = 0) {
    const [at, length] = this.put(code);
    const [file] = this.put(name);
    const value = this.e.qjs_eval(at, length, file, flags);
    this.e.wasm_free(at);
    this.e.wasm_free(file);
    return value;
  }
  evalAsync(code, name) { return this.eval(code, name, ASYNC | BACKTRACE_BARRIER); }

  call(fn, ...values) {
    const at = this.e.wasm_malloc(4 * values.length || 4);
    values.forEach((value, i) => this.view().setUint32(at + 4 * i, value, true));
    const result = this.e.qjs_call(fn, this.undefinedBox(), values.length, at);
    this.e.wasm_free(at);
    return result;
  }
  get(object, name) {
    const [key] = this.put(name);
    const value = this.e.qjs_get_prop_string(object, key);
    this.e.wasm_free(key);
    return value;
  }
  runJobs() {
    while (this.e.qjs_is_job_pending()) if (this.e.qjs_execute_pending_job() < 0) throw new Error("a job failed");
  }
  thrown() { return this.e.qjs_get_exception(); }
}

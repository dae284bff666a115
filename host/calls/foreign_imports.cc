#include "host/calls/foreign_imports.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace membrane::host {
namespace {

constexpr std::string_view kPreview1 = "wasi_snapshot_preview1";

// How the parts of an import's name are compared.
enum class Match : uint8_t { kIs, kBeginsWith, kAny };
struct Part {
  Match match;
  std::string_view text = {};

  [[nodiscard]] bool fits(std::string_view name) const {
    switch (match) {
      case Match::kIs: return name == text;
      case Match::kBeginsWith: return name.starts_with(text);
      case Match::kAny: return true;
    }
    return false;
  }
};
constexpr Part is(std::string_view text) { return {Match::kIs, text}; }
constexpr Part begins(std::string_view text) { return {Match::kBeginsWith, text}; }
constexpr Part kAnything{Match::kAny};

struct Origin {
  Part module, name;
  std::string_view what;  // the first match
};

constexpr std::string_view kBindgen =
    "This is a module of wasm-bindgen, which needs the JavaScript that was generated with it. Build the "
    "program for wasm32-wasip1, without wasm-bindgen.";
constexpr std::string_view kGoJs =
    "This is Go's target js/wasm, which needs a browser or Node. Build it with GOOS=wasip1 GOARCH=wasm.";
constexpr std::string_view kEmscripten =
    "This is a module of Emscripten, which needs the JavaScript that was generated with it. Build it with "
    "emcc -sSTANDALONE_WASM, or with clang and wasi-libc (target wasm32-wasip1).";
constexpr std::string_view kAssemblyScript =
    "This is a module of AssemblyScript for JavaScript. Build it with the WASI shim (asc --config "
    "node_modules/@assemblyscript/wasi-shim/asconfig.json), or with --use abort= and without console and "
    "Date.";
constexpr std::string_view kSockets =
    "This is a socket function of WasmEdge or WASIX, not of WASI preview 1. A program reaches servers "
    "through the capability http here (membrane capabilities http).";
constexpr std::string_view kPreview2 =
    "This is an interface of WASI preview 2, of a component. Build a core module for WASI preview 1: target "
    "wasm32-wasip1.";
constexpr std::string_view kWasix =
    "This is WASIX, Wasmer's extension of WASI with threads, processes and sockets. Build the program for "
    "wasm32-wasip1.";
constexpr std::string_view kThreads =
    "This is the threads proposal of WASI, and a program has one thread here. Build it for wasm32-wasip1 "
    "without threads.";
constexpr std::string_view kWasiProposal =
    "This is a proposal for WASI that is not part of preview 1. Build the program without it.";
constexpr std::string_view kSharedLibrary =
    "This is a shared library (-fPIC, a side module), which another module loads. Link it into a program.";

constexpr std::string_view kObjectFile =
    "This is an object file, as clang -c makes it. Link it into a program: leave out -c.";

// Symbols that only Emscripten's own libraries leave to JavaScript.
constexpr std::array kEmscriptenBeginnings = {
    std::string_view("emscripten_"),   std::string_view("_emscripten_"),
    std::string_view("invoke_"),       std::string_view("__cxa_"),
    std::string_view("__syscall_"),    std::string_view("_embind_"),
    std::string_view("_emval_"),       std::string_view("_tzset_js"),
    std::string_view("_abort_js"),     std::string_view("_mmap_js"),
    std::string_view("_munmap_js"),    std::string_view("_localtime_js"),
    std::string_view("_gmtime_js"),    std::string_view("_mktime_js"),
    std::string_view("__assert_fail"), std::string_view("__handle_stack_overflow")};

constexpr std::array kOrigins = {
    Origin{begins("__wbindgen_"), kAnything, kBindgen},
    Origin{is("wbg"), kAnything, kBindgen},
    Origin{kAnything, begins("__wbg_"), kBindgen},
    Origin{kAnything, begins("__wbindgen_"), kBindgen},
    Origin{is("gojs"), kAnything, kGoJs},
    Origin{is("go"), kAnything, kGoJs},
    Origin{is(kPreview1), begins("sock_"), kSockets},
    Origin{begins("wasi:"), kAnything, kPreview2},
    Origin{begins("wasix_"), kAnything, kWasix},
    Origin{is("wasi"), is("thread-spawn"), kThreads},
    Origin{is("wasi"), is("thread_spawn"), kThreads},
    Origin{begins("wasi_ephemeral_"), kAnything, kWasiProposal},
    Origin{begins("wasi_nn"), kAnything, kWasiProposal},
    Origin{is("env"), is("__linear_memory"), kObjectFile},
    Origin{is("env"), is("__indirect_function_table"), kObjectFile},
    Origin{begins("GOT."), kAnything, kSharedLibrary},
    Origin{is("env"), is("__memory_base"), kSharedLibrary},
    Origin{is("env"), is("__table_base"), kSharedLibrary},
    Origin{is("env"), is("seed"), kAssemblyScript},
    Origin{is("env"), begins("console."), kAssemblyScript},
    Origin{is("env"), begins("Date."), kAssemblyScript},
};

// AssemblyScript's abort takes message, file, line and column; other aborts have no parameters.
bool is_assembly_script_abort(const wasm::Module& module, const wasm::Import& import) {
  return import.kind == wasm::ExternKind::kFunc && import.module == "env" && import.name == "abort" &&
         module.type_of_function(import.index).params.size() == 4;
}

bool is_emscripten(const wasm::Import& import) {
  // Minified imports: module "a", names of one or two letters.
  if (import.module == "a") return import.name.size() <= 2;
  return import.module == "env" &&
         std::ranges::any_of(kEmscriptenBeginnings,
                             [&](std::string_view beginning) { return import.name.starts_with(beginning); });
}

}  // namespace

std::string_view made_for(const wasm::Module& module, const wasm::Import& import) {
  if (import.module.starts_with("./") && import.module.ends_with("_bg.js")) return kBindgen;
  if (is_emscripten(import)) return kEmscripten;
  if (is_assembly_script_abort(module, import)) return kAssemblyScript;
  for (const Origin& origin : kOrigins)
    if (origin.module.fits(import.module) && origin.name.fits(import.name)) return origin.what;
  return {};
}

std::string_view made_for(const wasm::Module& module) {
  constexpr std::array kWhole = {kEmscripten, kSharedLibrary, kBindgen, kGoJs, kAssemblyScript, kObjectFile};
  for (const wasm::Import& import : module.imports) {
    const std::string_view what = made_for(module, import);
    if (std::ranges::find(kWhole, what) != kWhole.end()) return what;
  }
  return {};
}

}  // namespace membrane::host

#include "host/calls/foreign_imports.h"

#include <gtest/gtest.h>

#include "host/calls/link.h"

namespace membrane::host {
namespace {

// For a module whose only function takes this many i32.
std::string made_for(std::string module, std::string name, wasm::ExternKind kind = wasm::ExternKind::kFunc,
                     size_t parameters = 4) {
  wasm::Module of;
  of.types.push_back({std::vector(parameters, wasm::ValType::kI32), {}});
  of.functions.own().emplace_back();  // of type 0
  return std::string(host::made_for(of, {std::move(module), std::move(name), kind, 0}));
}

TEST(ForeignImports, SayWhatTheModuleWasMadeFor) {
  const struct {
    const char *module, *name, *says;
  } cases[] = {
      {"env", "emscripten_resize_heap", "Emscripten"},
      {"env", "__syscall_openat", "Emscripten"},
      {"env", "invoke_vii", "Emscripten"},
      {"a", "b", "Emscripten"},
      {"__wbindgen_placeholder__", "__wbindgen_throw", "wasm-bindgen"},
      {"./x_bg.js", "__wbg_log_1", "wasm-bindgen"},
      {"wbg", "__wbg_new_2", "wasm-bindgen"},
      {"gojs", "runtime.wasmExit", "GOOS=wasip1"},
      {"go", "debug", "GOOS=wasip1"},
      {"env", "abort", "AssemblyScript"},
      {"env", "console.log", "AssemblyScript"},
      {"wasi_snapshot_preview1", "sock_open", "WasmEdge"},
      {"wasi:cli/stdout@0.2.0", "get-stdout", "preview 2"},
      {"wasix_32v1", "thread_spawn_v2", "WASIX"},
      {"wasi", "thread-spawn", "threads"},
      {"wasi_ephemeral_nn", "load", "not part of preview 1"},
      {"GOT.mem", "x", "shared library"},
  };
  for (const auto& each : cases)
    EXPECT_NE(made_for(each.module, each.name).find(each.says), std::string::npos)
        << each.module << " " << each.name << ": " << made_for(each.module, each.name);
  EXPECT_NE(made_for("env", "__memory_base", wasm::ExternKind::kGlobal).find("shared library"),
            std::string::npos);
}

TEST(ForeignImports, OfOthersAreIgnored) {
  for (const auto& [module, name] :
       {std::pair{"env", "print"}, {"http", "get"}, {"wasi_snapshot_preview1", "fd_writ"}})
    EXPECT_EQ(made_for(module, name), "");
  EXPECT_EQ(made_for("env", "abort", wasm::ExternKind::kFunc, 0), "");
}

// An unknown import gets the best available hint.
TEST(ForeignImports, AreInTheFindingOfTheLinker) {
  for (const auto& [module, name, says] : {std::tuple{"a", "b", "Emscripten"},
                                           {"wasi_snapshot_preview1", "fd_writ", "docs/wasi.md"},
                                           {"env", "sqrt_of", "undefined symbols"}}) {
    wasm::Module wanted;
    wanted.types.push_back({});
    wanted.imports.push_back({module, name, wasm::ExternKind::kFunc, 0});
    const auto linked = link_imports(wanted);
    ASSERT_FALSE(linked);
    EXPECT_NE(linked.error().front().hint.find(says), std::string::npos) << linked.error().front().hint;
  }
}

// What the linker of a shared library leaves to the program is named before what shows that it is one.
TEST(ForeignImports, TellOfTheWholeModule) {
  wasm::Module wanted;
  wanted.types.push_back({});
  wanted.imports.push_back({"env", "free", wasm::ExternKind::kFunc, 0});
  wanted.imports.push_back({"http", "gett", wasm::ExternKind::kFunc, 0});
  wanted.imports.push_back({"env", "__memory_base", wasm::ExternKind::kGlobal, 0});
  const auto linked = link_imports(wanted);
  ASSERT_FALSE(linked);
  EXPECT_NE(linked.error()[0].hint.find("shared library"), std::string::npos) << linked.error()[0].hint;
  EXPECT_EQ(linked.error()[1].hint.find("shared library"), std::string::npos) << linked.error()[1].hint;
}

}  // namespace
}  // namespace membrane::host

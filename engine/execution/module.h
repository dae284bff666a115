// Making modules ready to run: validation, and code for the requested tier.
//
// Threads: pure, but for the process's arena of code.
#pragma once

#include <expected>
#include <memory>
#include <string_view>

#include "base/diagnostic.h"
#include "base/mapped_vector.h"
#include "engine/code/compiled_module.h"
#include "engine/code/tier.h"
#include "wasm/module.h"

namespace membrane::engine {

namespace native {
class CodeCache;
struct ModuleImage;
}  // namespace native

// Validates, and prepares what all instances share. Functions become code at their first call,
// or all at once for Tier::kCompiler, where this machine and module allow it. With a cache of code also
// for Tier::kAuto: it is made once.
// `text`: the source, if the module was parsed from text, for the lines of diagnostics.
std::expected<std::shared_ptr<CompiledModule>, Diagnostic> compile_module(
    wasm::Module module, std::string_view text = {}, Tier tier = Tier::kAuto,
    const native::CodeCache* cache = nullptr);

// A module that compile_module() has made before, with the frames of the functions that it defines, and their code,
// if any. It is trusted to be valid. A function takes no time before it is first used.
std::shared_ptr<CompiledModule> restore_module(wasm::Module module, MappedVector<native::FrameSlots> frames,
                                               native::ModuleImage code, Tier tier);

}  // namespace membrane::engine

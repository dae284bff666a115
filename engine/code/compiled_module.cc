#include "engine/code/compiled_module.h"

#include <utility>

namespace membrane::engine {

CompiledModule::CompiledModule(wasm::Module module, Tier tier)
    : module_(std::move(module)), functions_(module_.functions.size()), tier_(tier) {}
CompiledModule::~CompiledModule() = default;

}  // namespace membrane::engine

// CompiledModule: validation, and code made at a function's first call.

#include <algorithm>

#include "engine/instance.h"
#include "engine/native/runtime.h"
#include "engine/translate.h"
#include "wasm/body.h"
#include "wasm/validate.h"

namespace membrane::engine {
namespace {

// Frame slots are named by 16 bits.
constexpr uint32_t kMaxFrameSlots = 65535;

Diagnostic frame_too_large(uint32_t index, uint32_t slots) {
  Diagnostic d;
  d.code = DiagnosticCode::kImplementationLimit;
  d.message = "a frame of the function needs " + std::to_string(slots) + " slots";
  d.expected = "at most " + std::to_string(kMaxFrameSlots);
  d.function = "#" + std::to_string(index);
  return d;
}

}  // namespace

namespace {
constexpr std::string_view kTierNames[] = {"interpreter", "compiler", "auto"};
}  // namespace

std::string_view name_of(Tier tier) { return kTierNames[static_cast<size_t>(tier)]; }

std::optional<Tier> find_tier(std::string_view name) {
  for (size_t i = 0; i < std::size(kTierNames); ++i)
    if (kTierNames[i] == name) return static_cast<Tier>(i);
  return std::nullopt;
}

CompiledModule::CompiledModule() = default;
CompiledModule::~CompiledModule() = default;

std::expected<std::shared_ptr<CompiledModule>, Diagnostic> CompiledModule::compile(
    wasm::Module module, std::string_view text, Tier tier, const native::CodeCache* cache) {
  auto info = wasm::validate(module, text);
  if (!info) return std::unexpected(std::move(info).error());

  std::shared_ptr<CompiledModule> compiled(new CompiledModule);
  compiled->module_ = std::move(module);
  const wasm::Module& m = compiled->module_;

  compiled->canonical_types_.find(m);
  const size_t imported = m.functions.size() - info->functions.size();
  compiled->functions_ = std::make_unique<FunctionCode[]>(m.functions.size());
  for (size_t i = 0; i < m.functions.size(); ++i) {
    FunctionCode& code = compiled->functions_[i];
    const wasm::FuncType& type = m.types[m.functions[i].type];
    code.index = static_cast<uint32_t>(i);
    code.module = compiled.get();
    code.param_slots = slots_of(type.params);
    code.result_slots = slots_of(type.results);
    code.entry.store(kTranslateStub, std::memory_order_relaxed);
    if (i < imported) continue;
    const wasm::FunctionInfo& f = info->functions[i - imported];
    code.zero_slots = f.local_slots - code.param_slots;
    code.frame_slots = std::max(f.local_slots + f.max_stack_slots, code.result_slots);
    if (code.frame_slots > kMaxFrameSlots)
      return std::unexpected(frame_too_large(static_cast<uint32_t>(i), code.frame_slots));
  }
  compiled->tier_ = tier;
  if (tier == Tier::kCompiler || (tier == Tier::kAuto && cache != nullptr))
    static_cast<void>(compiled->native_code().compile_all(cache));
  return compiled;
}

native::ModuleCode& CompiledModule::native_code() {
  const std::lock_guard lock(mutex_);
  if (native_ == nullptr) native_ = std::make_unique<native::ModuleCode>(*this);
  return *native_;
}

size_t CompiledModule::native_code_bytes() const {
  const std::lock_guard lock(mutex_);
  return native_ == nullptr ? 0 : native_->code_bytes();
}

namespace {

// The address that a data segment is written to, when it is a constant.
std::optional<uint64_t> constant_address(const wasm::Module& module, wasm::ByteRange expression) {
  wasm::BodyReader reader(module.view(expression));
  if (!reader.next()) return std::nullopt;
  const wasm::Instruction first = reader.instruction();
  if (!reader.next() || reader.instruction().op != wasm::Opcode::kEnd) return std::nullopt;
  if (first.op == wasm::Opcode::kI32Const) return static_cast<uint32_t>(first.value);
  return first.op == wasm::Opcode::kI64Const ? std::optional(first.value) : std::nullopt;
}

std::shared_ptr<const MemoryImage> image_of_data(const wasm::Module& module) {
  if (module.memories.empty() || module.memories[0].import != wasm::kNotImported) return nullptr;
  const uint64_t size = module.memories[0].type.limits.min * wasm::kPageBytes;
  std::vector<MemoryPart> parts;
  uint64_t bytes = 0, end = 0;
  for (const wasm::DataSegment& segment : module.datas) {
    if (segment.mode != wasm::SegmentMode::kActive || segment.memory != 0) continue;
    const auto address = constant_address(module, segment.offset);
    if (!address || *address > size || segment.data.size > size - *address) return nullptr;
    parts.emplace_back(*address, module.view(segment.data));
    bytes += segment.data.size;
    end = std::max(end, *address + segment.data.size);
  }
  return bytes < MemoryImage::kLeastBytes ? nullptr : MemoryImage::create(end, parts);
}

}  // namespace

std::shared_ptr<const MemoryImage> CompiledModule::data_image() {
  const std::lock_guard lock(mutex_);
  if (instances_ < 2) {
    ++instances_;
    if (instances_ == 2) data_image_ = image_of_data(module_);
  }
  return data_image_;
}

void CompiledModule::translate_function(uint32_t index) {
  const std::lock_guard lock(mutex_);
  FunctionCode& function = functions_[index];
  if (function.code.load(std::memory_order_relaxed) != nullptr) return;
  thread_local std::vector<Word> scratch;
  scratch.clear();
  CatchTable catches;
  translate(module_, index, functions_.get(), scratch, {}, &catches);
  code_.push_back(std::make_unique_for_overwrite<Word[]>(scratch.size()));
  std::copy(scratch.begin(), scratch.end(), code_.back().get());
  if (!catches.regions.empty()) {
    catches_.push_back(std::make_unique<CatchTable>(std::move(catches)));
    function.catches = catches_.back().get();
  }
  function.code.store(code_.back().get(), std::memory_order_release);
  const Word* untranslated = kTranslateStub;  // a function with machine code keeps its entry
  function.entry.compare_exchange_strong(untranslated, code_.back().get(), std::memory_order_acq_rel);
  constexpr size_t kKeepWords = 1u << 20;
  if (scratch.capacity() > kKeepWords) scratch = {};
}

}  // namespace membrane::engine

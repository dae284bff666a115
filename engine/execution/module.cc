#include "engine/execution/module.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "base/text.h"
#include "engine/code/translate.h"
#include "engine/instance/lone_functions.h"
#include "engine/native/runtime.h"
#include "wasm/body.h"
#include "wasm/validate.h"

namespace membrane::engine {
namespace {

// Frame slots are named by 16 bits.
constexpr uint32_t kMaxFrameSlots = 65535;

Diagnostic frame_too_large(uint32_t index, const FunctionCode& code) {
  Diagnostic d;
  d.code = DiagnosticCode::kImplementationLimit;
  d.message = "a frame of the function needs " + count_of(code.frame_slots, "slot");
  d.expected = "at most " + std::to_string(kMaxFrameSlots);
  d.function = "#" + std::to_string(index);
  return d;
}

// A CompiledModule whose functions become code when they are first called, or were when it was made.
class RunnableModule final : public CompiledModule {
 public:
  RunnableModule(wasm::Module module, Tier tier) : CompiledModule(std::move(module), tier) {}

  std::optional<Diagnostic> prepare(std::string_view text, const native::CodeCache* cache);
  void restore(MappedVector<native::FrameSlots> frames, native::ModuleImage code);

  void translate_function(uint32_t index) override;
  [[nodiscard]] std::vector<native::FrameSlots> frames() const override;
  [[nodiscard]] native::ModuleCode& native_code() override;
  [[nodiscard]] size_t native_code_bytes() const override;
  [[nodiscard]] size_t native_function_count() const override;
  [[nodiscard]] LoneFunctions& lone() override;
  [[nodiscard]] std::shared_ptr<const MemoryImage> data_image() override;

 private:
  bool find(const native::CodeCache& cache);
  std::optional<Diagnostic> validate(std::string_view text);
  std::optional<Diagnostic> validate_and_compile(std::string_view text, const native::CodeCache* cache);
  [[nodiscard]] native::FrameSlots frame_of(uint32_t index, const wasm::FunctionInfo& info) const;
  FunctionCode& fill(uint32_t index, native::FrameSlots frame);
  bool set_frame(uint32_t index, native::FrameSlots frame);
  void make(uint32_t index) override;

  // Of a restored module, whose functions are made when they are first needed.
  MappedVector<native::FrameSlots> known_frames_;
  const native::ModuleCode* known_code_ = nullptr;
  std::mutex make_mutex_;     // guards the making of functions; no other is locked while it is held
  mutable std::mutex mutex_;  // guards code_, catches_ and native_
  std::vector<std::unique_ptr<Word[]>> code_;
  std::vector<std::unique_ptr<CatchTable>> catches_;
  std::unique_ptr<native::ModuleCode> native_;
  std::once_flag lone_once_;
  std::unique_ptr<LoneFunctions> lone_;
  std::shared_ptr<const MemoryImage> data_image_;  // guarded by mutex_, as is the next
  uint32_t instances_ = 0;                         // 2: there were two or more, and data_image_ is final
};

std::optional<Diagnostic> RunnableModule::prepare(std::string_view text, const native::CodeCache* cache) {
  if (tier_ == Tier::kInterpreter || (tier_ == Tier::kAuto && cache == nullptr)) {
    if (auto failure = validate(text)) return failure;
  } else if (cache == nullptr || !find(*cache)) {
    if (auto failure = validate_and_compile(text, cache)) return failure;
  }

  for (uint32_t i = 0; i < module_.imported_function_count(); ++i) set_frame(i, {});
  canonical_types_.find(module_);
  return std::nullopt;
}

void RunnableModule::restore(MappedVector<native::FrameSlots> frames, native::ModuleImage code) {
  known_frames_ = std::move(frames);
  for (uint32_t i = 0; i < module_.imported_function_count(); ++i) set_frame(i, {});
  canonical_types_.find(module_);
  if (tier_ == Tier::kInterpreter || code.block.code() == nullptr || !native_code().use(std::move(code)))
    return;
  known_code_ = native_.get();
  // Code calls them by their addresses.
  known_code_->each_without_code([this](uint32_t index) { static_cast<void>(function(index)); });
}

LoneFunctions& RunnableModule::lone() {
  std::call_once(lone_once_, [this] { lone_ = std::make_unique<LoneFunctions>(*this); });
  return *lone_;
}

std::vector<native::FrameSlots> RunnableModule::frames() const {
  std::vector<native::FrameSlots> frames(known_frames_.begin(), known_frames_.end());
  if (!frames.empty()) return frames;
  for (uint32_t i = module_.imported_function_count(); i < module_.functions.size(); ++i)
    frames.push_back({functions_[i].zero_slots, functions_[i].frame_slots, functions_[i].uses_vectors});
  return frames;
}

// A module that is in the cache was valid when it was put there, and is the same.
bool RunnableModule::find(const native::CodeCache& cache) {
  const auto frames = native_code().find(cache);
  if (!frames) return false;
  const uint32_t imported = module_.imported_function_count();
  for (uint32_t i = 0; i < frames->size(); ++i) set_frame(imported + i, (*frames)[i]);
  return true;
}

std::optional<Diagnostic> RunnableModule::validate(std::string_view text) {
  const auto info = wasm::validate(module_, text);
  if (!info) return info.error();
  const uint32_t imported = module_.imported_function_count();
  for (uint32_t i = 0; i < info->functions.size(); ++i)
    if (!set_frame(imported + i, frame_of(imported + i, info->functions[i])))
      return frame_too_large(imported + i, functions_[imported + i]);
  return std::nullopt;
}

// A function is compiled as soon as it is known to be valid, from what the validator has noted: its instructions, which
// are decoded once, and how it uses its locals.
std::optional<Diagnostic> RunnableModule::validate_and_compile(std::string_view text,
                                                               const native::CodeCache* cache) {
  native::ModuleCode::Batch batch(native_code());
  std::optional<uint32_t> too_large;
  const auto info = wasm::validate(
      module_, text, [&](uint32_t index, const wasm::FunctionInfo& f, const wasm::BodyNotes& notes) {
        if (set_frame(index, frame_of(index, f))) batch.add(index, notes);
        else if (!too_large) too_large = index;
      });
  if (!info) return info.error();
  if (too_large) return frame_too_large(*too_large, functions_[*too_large]);
  static_cast<void>(batch.finish(cache));  // without room for code, all is interpreted
  return std::nullopt;
}

native::FrameSlots RunnableModule::frame_of(uint32_t index, const wasm::FunctionInfo& info) const {
  const wasm::FuncType& type = module_.type_of_function(index);
  return {.zero = info.local_slots - slots_of(type.params),
          .whole = std::max(info.local_slots + info.max_stack_slots, slots_of(type.results)),
          .uses_vectors = info.uses_simd};
}

// Fills in everything but the entry. The frame of an imported function is empty.
FunctionCode& RunnableModule::fill(uint32_t index, native::FrameSlots frame) {
  const wasm::FuncType& type = module_.type_of_function(index);
  FunctionCode& code = functions_[index];
  code.index = index;
  code.module = this;
  code.param_slots = slots_of(type.params);
  code.result_slots = slots_of(type.results);
  code.zero_slots = frame.zero;
  code.frame_slots = frame.whole;
  code.uses_vectors = frame.uses_vectors != 0;
  return code;
}

// False when the frame is too large.
bool RunnableModule::set_frame(uint32_t index, native::FrameSlots frame) {
  const FunctionCode& code = fill(index, frame);
  const Word* unset = nullptr;  // code from the cache is there already
  functions_[index].entry.compare_exchange_strong(unset, kTranslateStub, std::memory_order_relaxed);
  return code.frame_slots <= kMaxFrameSlots;
}

// While the module is being validated, what is not known yet stays unknown.
void RunnableModule::make(uint32_t index) {
  if (known_frames_.empty()) return;
  const std::lock_guard lock(make_mutex_);
  if (functions_[index].entry.load(std::memory_order_relaxed) != nullptr) return;
  FunctionCode& code = fill(index, known_frames_[index - module_.imported_function_count()]);
  const bool has_code = known_code_ != nullptr && known_code_->connect(code);
  code.entry.store(has_code ? kNativeStub : kTranslateStub, std::memory_order_release);
}

native::ModuleCode& RunnableModule::native_code() {
  const std::lock_guard lock(mutex_);
  if (native_ == nullptr) native_ = std::make_unique<native::ModuleCode>(*this);
  return *native_;
}

size_t RunnableModule::native_code_bytes() const {
  const std::lock_guard lock(mutex_);
  return native_ == nullptr ? 0 : native_->code_bytes();
}

size_t RunnableModule::native_function_count() const {
  const std::lock_guard lock(mutex_);
  return native_ == nullptr ? 0 : native_->function_count();
}

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

std::shared_ptr<const MemoryImage> RunnableModule::data_image() {
  const std::lock_guard lock(mutex_);
  if (instances_ < 2) {
    ++instances_;
    if (instances_ == 2) data_image_ = image_of_data(module_);
  }
  return data_image_;
}

void RunnableModule::translate_function(uint32_t index) {
  const std::lock_guard lock(mutex_);
  FunctionCode& function = this->function(index);
  if (function.code.load(std::memory_order_relaxed) != nullptr) return;
  thread_local std::vector<Word> scratch;
  scratch.clear();
  CatchTable catches;
  translate(*this, index, scratch, {}, &catches);
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

}  // namespace

std::expected<std::shared_ptr<CompiledModule>, Diagnostic> compile_module(wasm::Module module,
                                                                          std::string_view text, Tier tier,
                                                                          const native::CodeCache* cache) {
  auto compiled = std::make_shared<RunnableModule>(std::move(module), tier);
  if (auto failure = compiled->prepare(text, cache)) return std::unexpected(*std::move(failure));
  return compiled;
}

std::shared_ptr<CompiledModule> restore_module(wasm::Module module, MappedVector<native::FrameSlots> frames,
                                               native::ModuleImage code, Tier tier) {
  auto compiled = std::make_shared<RunnableModule>(std::move(module), tier);
  compiled->restore(std::move(frames), std::move(code));
  return compiled;
}

}  // namespace membrane::engine

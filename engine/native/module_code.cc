// The compiled functions of a module: their code, the function of an address, and the clauses that catch in them; compiling
// one, or all.
//
// Threads: any; the mutexes of the ModuleCode and of the registry guard it.
#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "engine/code/compiled_module.h"
#include "engine/interpreter/interpreter.h"
#include "engine/native/assembler.h"
#include "engine/native/runtime.h"
#include "engine/native/trampolines.h"
#include "wasm/body.h"
#include "wasm/opcode.h"

namespace membrane::engine::native {

// -- whose code is it ----------------------------------------------------------------------------------

namespace {

struct Registry {
  std::shared_mutex mutex;
  std::map<const uint8_t*, const ModuleCode::Blob*> blobs;  // by their first byte
  static Registry& instance() {
    static Registry* const registry = new Registry;
    return *registry;
  }
};

}  // namespace

std::optional<CodeAddress> find_code(const void* pc) {
  Registry& registry = Registry::instance();
  const std::shared_lock lock(registry.mutex);
  const auto* const at = static_cast<const uint8_t*>(pc);
  auto next = registry.blobs.upper_bound(at);
  if (next == registry.blobs.begin()) return std::nullopt;
  const ModuleCode::Blob& blob = *std::prev(next)->second;
  const ModuleImage& image = blob.image;
  const auto offset = static_cast<size_t>(at - image.block.code());
  if (offset >= image.block.size()) return std::nullopt;
  const auto start = std::prev(std::upper_bound(image.starts.begin(), image.starts.end(), offset));
  const uint32_t function = image.indices[static_cast<size_t>(start - image.starts.begin())];
  return CodeAddress{&blob.module->function(function), static_cast<uint32_t>(offset - *start), blob.batch};
}

void watch(const CodeAddress& at, std::span<Watch> watches) {
  const FunctionCode& function = *at.function;
  Compiler compiler(*function.module);
  std::vector<BatchCall> calls;
  static_cast<void>(compiler.compile(function.index, at.batch ? &calls : nullptr, watches));
}

// Whether there is a try_table with clauses in the function's body.
static bool may_catch(const wasm::Module& module, uint32_t index) {
  wasm::BodyReader body(module.view(module.functions[index].code));
  while (body.next())
    if (body.instruction().op == wasm::Opcode::kTryTable && body.instruction().count != 0) return true;
  return false;
}

const CatchTable* ModuleCode::catches(const CodeAddress& at) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = catches_.try_emplace(at.function->index);
  if (is_new && may_catch(module_.module(), at.function->index)) {
    found->second = std::make_unique<CatchTable>();
    Compiler compiler(module_);
    std::vector<BatchCall> calls;
    static_cast<void>(
        compiler.compile(at.function->index, at.batch ? &calls : nullptr, {}, found->second.get()));
  }
  return found->second.get();
}

// -- the code of a module ----------------------------------------------------------------------------------

ModuleCode::ModuleCode(CompiledModule& module) : module_(module) {}

ModuleCode::~ModuleCode() {
  Registry& registry = Registry::instance();
  const std::unique_lock lock(registry.mutex);
  for (const auto& blob : blobs_) registry.blobs.erase(blob->image.block.code());
}

size_t ModuleCode::function_count() const {
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const auto& blob : blobs_) count += blob->image.indices.size();
  return count;
}

size_t ModuleCode::code_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  for (const auto& blob : blobs_) bytes += blob->image.block.size();
  return bytes;
}

namespace {

bool code_can_run() { return machine_is_supported() && Trampolines::instance().enter != nullptr; }

void set_code(FunctionCode& function, const uint8_t* code) {
  function.native_code.store(code, std::memory_order_release);
  function.native_entry.store(code, std::memory_order_release);
}

}  // namespace

// From now on compiled code may call any function of the module. False where no code can run.
bool ModuleCode::connect() {
  if (!code_can_run()) return false;
  if (connected_) return true;
  connected_ = true;
  for (size_t i = 0; i < module_.module().functions.size(); ++i)
    module_.function(static_cast<uint32_t>(i))
        .native_entry.store(Trampolines::instance().exit_call, std::memory_order_release);
  return true;
}

const ModuleCode::Blob& ModuleCode::keep(ModuleImage image, bool batch) {
  blobs_.push_back(std::unique_ptr<Blob>(new Blob{std::move(image), &module_, batch}));
  const Blob& blob = *blobs_.back();
  Registry& registry = Registry::instance();
  const std::unique_lock lock(registry.mutex);
  registry.blobs.emplace(blob.image.block.code(), &blob);
  return blob;
}

void ModuleCode::add(ModuleImage image, bool batch) {
  const ModuleImage& made = keep(std::move(image), batch).image;
  for (size_t i = 0; i < made.starts.size(); ++i) {
    FunctionCode& function = module_.functions()[made.indices[i]];
    set_code(function, made.block.code() + made.starts[i]);
    function.entry.store(kNativeStub, std::memory_order_release);
  }
}

constexpr size_t kAlignment = 16;
constexpr size_t kUsualExpansion = 4;          // bytes of code for a byte of a body
constexpr size_t kMostCodeBytes = 256u << 20;  // of one module; what is beyond is interpreted

constexpr uint32_t kNoCode = UINT32_MAX;

std::optional<std::vector<FrameSlots>> ModuleCode::find(const CodeCache& cache) {
  const std::lock_guard lock(mutex_);
  if (!connect()) return std::nullopt;
  auto kept = cache.find(module_.module());
  if (!kept) return std::nullopt;
  auto frames = std::move(kept->frames);
  add(std::move(*kept), true);
  return frames;
}

bool ModuleCode::use(ModuleImage image) {
  const std::lock_guard lock(mutex_);
  if (!code_can_run()) return false;
  connected_ = true;
  used_ = &keep(std::move(image), true);
  return true;
}

bool ModuleCode::connect(FunctionCode& function) const {
  const auto& [block, starts, indices, frames] = used_->image;
  const uint32_t* const found = std::lower_bound(indices.begin(), indices.end(), function.index);
  const bool has_code = found != indices.end() && *found == function.index;
  if (has_code) set_code(function, block.code() + starts[static_cast<size_t>(found - indices.begin())]);
  else function.native_entry.store(Trampolines::instance().exit_call, std::memory_order_release);
  return has_code;
}

void ModuleCode::each_without_code(const std::function<void(uint32_t)>& give) const {
  uint32_t next = module_.module().imported_function_count();
  for (const uint32_t index : used_->image.indices) {
    while (next < index) give(next++);
    next = index + 1;
  }
  while (next < module_.module().functions.size()) give(next++);
}

const ModuleImage* ModuleCode::whole() const {
  const std::lock_guard lock(mutex_);
  return blobs_.empty() || !blobs_.front()->batch ? nullptr : &blobs_.front()->image;
}

namespace {

size_t usual_code_bytes(const wasm::Module& module) {
  size_t bytes = 0;
  for (const wasm::Function& function : module.functions) bytes += function.code.size;
  return std::min(kMostCodeBytes, bytes * kUsualExpansion);
}

}  // namespace

ModuleCode::Batch::Batch(ModuleCode& code)
    : code_(code),
      compiler_(code.module_),
      writer_(usual_code_bytes(code.module_.module())),
      starts_(code.module_.module().functions.size(), kNoCode) {}

void ModuleCode::Batch::add(uint32_t function, const wasm::BodyNotes& notes) {
  const size_t known_calls = calls_.size();
  if (writer_.size() < kMostCodeBytes && writer_.align(kAlignment)) {
    const auto start = static_cast<uint32_t>(writer_.size());
    const std::span<const uint8_t> made = compiler_.compile(function, &calls_, {}, nullptr, &notes);
    if (!made.empty() && writer_.append(made)) {
      for (size_t k = known_calls; k < calls_.size(); ++k) calls_[k].displacement_end += start;
      starts_[function] = start;
      image_starts_.push_back(start);
      indices_.push_back(function);
      return;
    }
    calls_.resize(known_calls);
  }
  left_.push_back(function);
}

bool ModuleCode::Batch::finish(const CodeCache* cache) {
  const std::lock_guard lock(code_.mutex_);
  if (!code_.connect() || !write_ways_out()) return false;
  for (const BatchCall& call : calls_) {
    const size_t value = call.wanted == BatchCall::Wanted::kCode
                             ? starts_[call.function] - call.displacement_end
                             : code_.module_.function(call.function).frame_slots * sizeof(uint64_t);
    writer_.put32(call.displacement_end - 4, static_cast<uint32_t>(value));
  }
  ModuleImage image{writer_.finish(), std::move(image_starts_), std::move(indices_), {}};
  if (image.block.code() == nullptr) return true;  // there is no function
  // A cache that cannot be written is ignored.
  if (cache != nullptr && image.block.size() >= CodeCache::kLeastCodeBytes) {
    image.frames = code_.module_.frames();
    static_cast<void>(cache->keep(code_.module_.module(), image));
  }
  code_.add(std::move(image), true);
  return true;
}

// Direct calls of functions without code go to a piece of code that exits. False when there is no room.
bool ModuleCode::Batch::write_ways_out() {
  for (const uint32_t function : left_) {
    std::vector<uint8_t> bytes;
    Assembler a(bytes);
    a.mov(Width::k64, rax, Mem{r14, static_cast<int32_t>(offsetof(NativeState, functions))});
    a.op(Alu::kAdd, Width::k64, rax, static_cast<int32_t>(function * sizeof(FunctionCode)));
    a.jmp(Mem{rax, static_cast<int32_t>(offsetof(FunctionCode, native_entry))});
    starts_[function] = static_cast<uint32_t>(writer_.size());
    if (!writer_.append({a.data(), a.here()})) return false;
  }
  return true;
}

bool ModuleCode::compile_function(uint32_t index) {
  const std::lock_guard lock(mutex_);
  FunctionCode& function = module_.function(index);
  if (function.native_code.load(std::memory_order_acquire) != nullptr) return true;
  if (refused_.contains(index) || !connect()) return false;
  if (!compiler_) compiler_ = std::make_unique<Compiler>(module_);
  const std::span<const uint8_t> made = compiler_->compile(index, nullptr);
  CodeWriter code(made.size());
  if (made.empty() || !code.append(made)) {
    refused_.insert(index);
    return false;
  }
  add({code.finish(), std::vector<uint32_t>{0}, std::vector<uint32_t>{index}, {}}, false);
  return true;
}

}  // namespace membrane::engine::native

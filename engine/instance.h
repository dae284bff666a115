// Modules made ready to run, their instances, and one run of a function.
//
//   auto module = CompiledModule::compile(std::move(wasm_module));    // validates
//   auto instance = Instance::create(*module, resolver, limits);      // links, fills memory and tables
//   Execution run(limits);
//   run.start((*instance)->find_function("add"), arguments);
//   run.add_fuel(1'000'000);
//   switch (run.resume()) { … }                                        // values, a trap, or a pause
//
// A start function is not run by create(): Module::start names it, and whoever made the
// instance runs it like any other, under the same limits.
//
// Ownership. A Store is the arena of instances that link with each other: what one of
// them puts into another's table lives as long as the Store. An instance made alone has
// a Store of its own. Handles are shared_ptr<Instance> that keep the Store alive.
//
// Threads: a CompiledModule is shared by any number of threads; a Store, with all that
// is in it, belongs to one thread at a time.
//
// Specification: WebAssembly 2.0, chapters 4.2 (runtime structure) and 4.5 (modules).
#pragma once

#include <algorithm>
#include <csetjmp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/mapped_vector.h"
#include "base/result.h"
#include "base/zero_array.h"
#include "engine/code.h"
#include "engine/heap.h"
#include "engine/memory.h"
#include "engine/runtime_types.h"
#include "engine/tier.h"
#include "engine/trap.h"
#include "wasm/module.h"

namespace membrane::wasm {
struct FunctionInfo;
}
namespace membrane::engine {

class Instance;
struct FunctionInstance;
class Store;
struct Execution;
namespace native {
class CodeCache;
struct FrameSlots;
struct ModuleImage;
class ModuleCode;
struct NativeState;
}  // namespace native

// -- values -------------------------------------------------------------------------

// A value with its type. v128 uses both words; references are a FunctionInstance*, an
// embedder's number plus one (below 2^62), or that of an exception of the Store plus one; 0 for null. What refers
// to structs and arrays is of use only with the Store (heap.h), as long as the Execution that gave it.
struct Value {
  wasm::ValType type = wasm::ValType::kI32;
  uint64_t bits = 0;
  uint64_t high_bits = 0;

  static Value i32(uint32_t v) { return {wasm::ValType::kI32, v, 0}; }
  static Value i64(uint64_t v) { return {wasm::ValType::kI64, v, 0}; }
  static Value f32(float v);
  static Value f64(double v);
  static Value null(wasm::ValType type) { return {type, 0, 0}; }
};

// -- modules --------------------------------------------------------------------------

class CompiledModule {
 public:
  // Validates, and prepares what all instances share. Functions become code at their first call,
  // or all at once for Tier::kCompiler, where this machine and module allow it. With a cache of code also
  // for Tier::kAuto: it is made once.
  // `text` is what it was parsed from, when it was, and gives diagnostics their lines.
  static std::expected<std::shared_ptr<CompiledModule>, Diagnostic> compile(
      wasm::Module module, std::string_view text = {}, Tier tier = Tier::kAuto,
      const native::CodeCache* cache = nullptr);
  // A module that compile() has made before, with the frames of the functions that it defines and the code that
  // was made of them, which may be none: as valid as it was then. It is believed. Takes no time for a function
  // before somebody looks at it.
  static std::shared_ptr<CompiledModule> restore(wasm::Module module, MappedVector<native::FrameSlots> frames,
                                                 native::ModuleImage code, Tier tier);
  [[nodiscard]] std::vector<native::FrameSlots> frames() const;
  ~CompiledModule();
  CompiledModule(const CompiledModule&) = delete;
  CompiledModule& operator=(const CompiledModule&) = delete;

  [[nodiscard]] const wasm::Module& module() const { return module_; }
  [[nodiscard]] FunctionCode& function(uint32_t index) {
    FunctionCode& code = functions_[index];
    if (code.entry.load(std::memory_order_acquire) == nullptr) [[unlikely]]
      make(index);
    return code;
  }
  // For what calculates an address; function() is who knows that there is something.
  [[nodiscard]] FunctionCode* functions() const { return functions_.get(); }

  // Makes the function's code and publishes it in its `entry`. Idempotent; thread-safe.
  void translate_function(uint32_t index);
  // What `types[index]` is at run time: equal types have equal pointers.
  [[nodiscard]] const wasm::FuncType* canonical_type(uint32_t index) const { return canonical_types_[index]; }
  [[nodiscard]] const wasm::FuncType* const* canonical_types() const { return canonical_types_.data(); }
  [[nodiscard]] RuntimeValType runtime_type(wasm::ValType type) const {
    return {type, wasm::is_indexed(type) ? canonical_types_[wasm::type_index_of(type)] : nullptr};
  }
  // Bytes of machine code; 0 when nothing is compiled.
  [[nodiscard]] size_t native_code_bytes() const;
  [[nodiscard]] size_t native_function_count() const;  // functions that have machine code
  // Its machine code, made when it is first asked for. Not for Tier::kInterpreter.
  [[nodiscard]] native::ModuleCode& native_code();
  [[nodiscard]] Tier tier() const { return tier_; }
  // What its instances that stand alone share (InstanceStart). Made when first asked for, and of the functions each
  // when somebody first follows a reference to it: until then it has no type (Machine::target).
  struct Lone {
    std::unique_ptr<Instance> home;  // no instance at all, but for its address
    ZeroArray<FunctionInstance> functions;
  };
  [[nodiscard]] Lone& lone();
  void make_lone(FunctionInstance& function);
  // The module's own memory 0 as its data segments leave it, when these are so large that an image pays. Null
  // otherwise, and for the first instance: it may be the only one.
  [[nodiscard]] std::shared_ptr<const MemoryImage> data_image();

 private:
  CompiledModule();
  std::optional<Diagnostic> prepare(wasm::Module module, std::string_view text, Tier tier,
                                    const native::CodeCache* cache);
  bool find(const native::CodeCache& cache);
  std::optional<Diagnostic> validate(std::string_view text);
  std::optional<Diagnostic> validate_and_compile(std::string_view text, const native::CodeCache* cache);
  [[nodiscard]] native::FrameSlots frame_of(uint32_t index, const wasm::FunctionInfo& info) const;
  FunctionCode& fill(uint32_t index, native::FrameSlots frame);
  bool set_frame(uint32_t index, native::FrameSlots frame);
  void make(uint32_t index);

  wasm::Module module_;
  ZeroArray<FunctionCode> functions_;
  // Of a restored module, whose functions are made when they are looked at.
  MappedVector<native::FrameSlots> known_frames_;
  const native::ModuleCode* known_code_ = nullptr;
  ModuleTypes canonical_types_;
  std::mutex make_mutex_;     // guards the making of functions; nobody locks another within
  mutable std::mutex mutex_;  // guards code_, catches_ and native_
  std::vector<std::unique_ptr<Word[]>> code_;
  std::vector<std::unique_ptr<CatchTable>> catches_;
  std::unique_ptr<native::ModuleCode> native_;
  Tier tier_ = Tier::kInterpreter;
  std::once_flag lone_once_;
  Lone lone_;
  std::shared_ptr<const MemoryImage> data_image_;  // guarded by mutex_, as is the next
  uint32_t instances_ = 0;  // 2: there were so many or more, and data_image_ is what it will be
};

// -- host functions ---------------------------------------------------------------------

enum class HostAction : uint8_t {
  kContinue,   // the results are written
  kTrap,       // HostCall::trap_message says why
  kOutOfFuel,  // there is not enough to begin: the guest pauses before the call, which is made again
  kInterrupt,  // the results are written, and the guest pauses behind the call
  kExit,       // the program is done, as if its entry had returned nothing
};

// One call of a host function, while it runs.
struct HostCall {
  Execution& execution;
  Instance* caller;                     // whose code called; null when the embedder did
  std::span<const uint64_t> arguments;  // a slot each (v128: two)
  std::span<uint64_t> results;          // to be written; may overlap the arguments: read those first
  std::string trap_message;

  // Takes fuel for work to be done on behalf of the guest. False: there is less, and nothing was taken.
  [[nodiscard]] bool charge(uint64_t fuel);
  // Takes fuel for work that is done. When there is less, what is left goes to 0, the guest pauses behind the
  // call, and what is added next pays the rest first.
  void owe(uint64_t fuel);
};

using HostFunction = std::function<HostAction(HostCall&)>;

// -- runtime objects -----------------------------------------------------------------------

// What compiled code reads of a FunctionInstance.
struct FunctionHandle {
  const FunctionCode* code = nullptr;  // null for a host function
  Instance* instance =
      nullptr;  // whose it is, or what instances that stand alone have for their home (Instance);
                // null for a host function
  const wasm::FuncType* type = nullptr;
};

struct FunctionInstance : FunctionHandle {
  uint32_t param_slots = 0;
  uint32_t result_slots = 0;
  const HostFunction* host = nullptr;  // null for a function with code
};

// The references in a table, 0 for null. Instances of one image share them until they are written.
class TableElements {
 public:
  [[nodiscard]] size_t size() const { return static_cast<size_t>(end_ - begin_); }
  uint64_t operator[](size_t index) const { return begin_[index]; }
  [[nodiscard]] const uint64_t* data() const { return begin_; }
  [[nodiscard]] const uint64_t* begin() const { return begin_; }
  [[nodiscard]] const uint64_t* end() const { return end_; }
  [[nodiscard]] std::span<uint64_t> writable();
  void resize(size_t size, uint64_t value = 0);
  void assign(std::vector<uint64_t> elements) { own(std::make_shared<Owned>(std::move(elements))); }

  // Where compiled code reads the beginning, and behind it the end.
  static constexpr size_t begin_at() { return offsetof(TableElements, begin_); }

 private:
  using Owned = std::vector<uint64_t>;
  void own(std::shared_ptr<Owned> elements);

  const uint64_t* begin_ = nullptr;
  const uint64_t* end_ = nullptr;
  std::shared_ptr<Owned> owned_;
};

struct Table {
  wasm::ValType element = wasm::ValType::kFuncRef;
  const wasm::FuncType* defined = nullptr;  // what `element` refers to, when it is a defined type
  TableElements elements;
  uint64_t max = UINT32_MAX;  // of its type
  bool has_max = false;
  bool is_64 = false;                   // its indices are i64
  std::shared_ptr<uint32_t> allowance;  // how many elements the owner lets all tables that share it gain
  [[nodiscard]] wasm::TableType type() const;
  [[nodiscard]] bool can_grow(uint64_t delta) const {
    return delta <= *allowance && elements.size() + delta <= max;
  }
  int64_t grow(uint64_t delta, uint64_t value);  // the size before, or -1
  // Takes what it needs of the allowance to have as many elements as it had elsewhere. False when that is too little.
  [[nodiscard]] bool allow(uint64_t size);
};

struct GlobalInstance {
  wasm::GlobalType type;
  uint64_t bits = 0;
  uint64_t high_bits = 0;
  const wasm::FuncType* defined = nullptr;  // what its type refers to, when it is a defined one
};

// What exceptions are told apart by: two of the same type are still two.
struct TagInstance {
  const wasm::FuncType* type = nullptr;  // without results
  uint32_t slots = 0;                    // of what an exception carries
  const Instance* instance = nullptr;    // whose it is; null for the host's
  uint32_t index = 0;                    // in its module
};

// The exceptions that were caught with a reference to them (exnref). A reference may be put into a global, a
// table or another exception, so they live as long as the Store; how many there may be is for the limits of the
// instance that threw them to say. They take memory in pages of kPageBytes, which are all that the host holds for them,
// and are the same in each tier and after thawing. Some the host lends; the rest comes out of that instance's memory
// limit.
class ExceptionArena {
 public:
  struct Exception {
    const TagInstance* tag;
    [[nodiscard]] const uint64_t* payload() const { return reinterpret_cast<const uint64_t*>(this + 1); }
  };
  static_assert(sizeof(Exception) == sizeof(uint64_t));

  static constexpr uint64_t kLentPages = 16;

  // How many pages another exception of the tag takes beyond those that there are or that the host lends.
  [[nodiscard]] uint64_t pages_to_add(const TagInstance& tag) const;
  // The reference: its number plus one.
  uint64_t add(const TagInstance* tag, const uint64_t* payload);
  // Null for null, and for what is no reference.
  [[nodiscard]] const Exception* find(uint64_t reference) const {
    if (reference == 0 || reference > size_) return nullptr;
    return places_[(reference - 1) / kPageWords][(reference - 1) % kPageWords];
  }
  [[nodiscard]] size_t size() const { return size_; }
  // What one counts for: its place among the others, its tag, and what it carries.
  static constexpr uint64_t bytes_of(const TagInstance& tag) { return (2 + tag.slots) * sizeof(uint64_t); }

 private:
  static constexpr size_t kPageWords = wasm::kPageBytes / sizeof(uint64_t);
  static size_t words_of(const TagInstance& tag) { return 1 + size_t{tag.slots}; }
  static uint64_t pages_of(size_t words) { return (words + kPageWords - 1) / kPageWords; }

  size_t size_ = 0;
  uint64_t page_count_ = 0;
  std::vector<std::unique_ptr<const Exception*[]>> places_;  // by number, kPageWords in each
  std::vector<std::unique_ptr<uint64_t[]>> pages_;           // the exceptions themselves
  size_t words_left_ = 0;                                    // of the last page
  uint64_t* next_ = nullptr;                                 // in it
};

// What an import is given, or an export is. Borrowed from a Store.
struct Extern {
  wasm::ExternKind kind = wasm::ExternKind::kFunc;
  FunctionInstance* function = nullptr;
  Table* table = nullptr;
  Memory* memory = nullptr;
  GlobalInstance* global = nullptr;
  TagInstance* tag = nullptr;
};

// Who provides imports. Return std::nullopt for what is unknown.
using Resolver = std::function<std::optional<Extern>(const wasm::Module&, const wasm::Import&)>;

struct InstanceLimits {
  uint64_t memory_bytes = 4ull << 30;    // of its own memories together
  uint32_t table_elements = 10'000'000;  // of its own tables together
  uint64_t exception_bytes =
      32u << 20;  // of exceptions that it throws and that are kept; they count as memory too
  uint64_t heap_bytes = 256u << 20;  // of structs and arrays; they count as memory as well
};

// How an instance begins, other than as its module says.
struct InstanceStart {
  // It stands alone: of what it has, only functions that it exports are for others, and for the host alone. Then it
  // costs little to make, however many functions it has. Only for a module that imports nothing but functions.
  bool is_alone = false;
  // So its own memories begin, and no segment is written: the caller goes on to fill the instance. Borrowed.
  const std::vector<MemoryStart>* memories = nullptr;
  bool has_tables = true;  // with `memories`: false when the caller fills tables and segments altogether
};

// Why an instance could not be made.
struct LinkError {
  enum class Kind : uint8_t { kUnknownImport, kIncompatibleImport, kTrap, kLimit } kind{};
  Error error;
  uint32_t import = UINT32_MAX;  // into Module::imports
  TrapKind trap{};               // kTrap: a segment did not fit its memory or table
};

class Instance {
 public:
  // In a Store of its own.
  static std::expected<std::shared_ptr<Instance>, LinkError> create(std::shared_ptr<CompiledModule> module,
                                                                    const Resolver& resolver,
                                                                    const InstanceLimits& limits);

  [[nodiscard]] CompiledModule& compiled() const { return *module_; }
  [[nodiscard]] const std::shared_ptr<CompiledModule>& share_compiled() const { return module_; }
  [[nodiscard]] const wasm::Module& module() const { return module_->module(); }
  [[nodiscard]] std::optional<Extern> find_export(std::string_view name);
  [[nodiscard]] FunctionInstance* find_function(std::string_view export_name);  // null when it is none
  // To be called from outside.
  [[nodiscard]] FunctionInstance* function(uint32_t index);
  // Which function of the module a reference inside is to; nothing when it is none of them.
  [[nodiscard]] std::optional<uint32_t> index_of(uint64_t function_reference) const;
  [[nodiscard]] Memory* memory() const { return memory_; }  // memory 0, null when it has none
  [[nodiscard]] uint64_t memory_bytes() const;  // the present size of all its memories, and of the heap
  [[nodiscard]] Heap& heap() const { return *heap_; }  // of its Store
  [[nodiscard]] bool limit_was_hit() const;            // a grow of a memory was refused by the owner's limit
  void note_limit_was_hit();  // as if one had been: it goes on from where it was kept

 private:
  friend class Store;
  friend class CompiledModule;  // lone()
  friend struct Instantiation;
  friend struct Machine;  // the interpreter's view
  Instance() = default;

  std::shared_ptr<CompiledModule> module_;
  Memory* memory_ = nullptr;  // the first of memories_
  std::vector<Memory*> memories_;
  MemoryBudget memory_budget_;  // of its own memories, when there are several
  // Functions refer to their instance, by which a call tells whether it stays inside. Those of an instance that
  // stands alone, which shares nothing with another, can only be called inside: they are the module's, the same in
  // each of its instances, and refer to what these have for a home. `entries_` are what it gives to the outside.
  Instance* home_ = this;
  std::vector<FunctionInstance*> imports_;
  FunctionInstance* own_ = nullptr;
  std::vector<std::unique_ptr<FunctionInstance>> entries_;
  std::vector<Table*> tables_;
  std::vector<GlobalInstance*> globals_;
  std::vector<TagInstance*> tags_;
  Heap* heap_ = nullptr;
  uint64_t first_object_ = 0;  // of a thawed instance: how many numbers of objects there were before
  ExceptionArena* exceptions_ = nullptr;  // of its Store
  uint64_t exception_bytes_left_ = 0;
  uint64_t first_exception_ = 0;                 // of a thawed instance: how many there were before its own
  ZeroArray<FunctionInstance> own_functions_;    // null when it stands alone
  std::vector<std::vector<uint64_t>> elements_;  // of each segment; empty once dropped
  std::vector<bool> dropped_datas_;
};

class Store {
 public:
  Store();
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // The module's start function is run by the caller (Execution), not here.
  std::expected<Instance*, LinkError> instantiate(std::shared_ptr<CompiledModule> module,
                                                  const Resolver& resolver, const InstanceLimits& limits,
                                                  const InstanceStart& start = {});
  // What the host gives has types that name no others.
  FunctionInstance* add_host_function(const wasm::FuncType& type, HostFunction function);
  Table* add_table(const wasm::TableType& type, uint32_t limit);  // null when its minimum is above it
  Result<Memory*> add_memory(const wasm::MemoryType& type, uint64_t limit_bytes,
                             MemoryBudget* shared = nullptr, MemoryStart start = {});
  GlobalInstance* add_global(const wasm::GlobalType& type, Value value);
  TagInstance* add_tag(const wasm::FuncType& type);  // of a type without results

 private:
  friend struct Instantiation;
  Table* add_table(const wasm::TableType& type, const std::shared_ptr<uint32_t>& allowance,
                   bool is_filled = true);
  TagInstance* add_tag(TagInstance tag);

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// -- running -----------------------------------------------------------------------------------

enum class RunState : uint8_t {
  kReady,        // resume() goes on
  kFinished,     // results() holds the values
  kTrapped,      // trap() says why
  kOutOfFuel,    // a pause: add_fuel() and resume()
  kInterrupted,  // a pause: the poll function asked for it; resume() goes on
  kExited,       // a host function ended the program
};

struct ExecutionLimits {
  uint64_t stack_bytes = 1ull << 20;  // of values
  uint32_t call_depth = 10'000;
  // Called whenever so much fuel was used, and after each translated function; true interrupts.
  // Keeps watch over wall clock and cancellation without a cost in the code.
  uint64_t poll_interval_fuel = 4'000'000;
  std::function<bool()> poll;
  // A thread keeps its last stack for its next call, if it is small; so also a large one, for calls that are many.
  bool keeps_stack = false;
};
// Gives the system back what the last calls of this thread used of a large stack: for when no more are to come soon.
void trim_kept_stack();

// A call in progress. The guest's values are on its value stack; this is the rest of the frame.
// Not initialised, so that a deep stack that is not used costs nothing.
struct FrameRecord {
  const Word* return_ip;         // the header behind the call
  uint64_t* fp;                  // of the caller
  const FunctionCode* function;  // that runs in this frame; null for a crossing
  Instance* instance;            // crossings into another instance: of the caller
};

// Who goes on with the innermost frame.
enum class Where : uint8_t {
  kInterpreter,
  kNativeCall,    // compiled code, which the interpreter has just called
  kNativeReturn,  // compiled code, to which the interpreter returns
  kNative,        // compiled code, with the registers of its NativeState
  kPromotion,     // the interpreter, unless its function can be compiled and gone on with there
};

// A run among those of a Store, of which the heap looks at the frames.
struct ExecutionLink {
  Heap* heap = nullptr;
  Execution* previous = nullptr;
  Execution* next = nullptr;
};

// What is thrown, on its way to whoever catches it.
struct Throwing {
  const TagInstance* tag = nullptr;
  const uint64_t* payload = nullptr;
  uint64_t reference = 0;  // when it was caught before, and is thrown again
  uint64_t looked_at = 0;  // by a search that was interrupted, and begins anew
};

// What handlers of the interpreter work on; while no guest code runs, also its registers.
struct MachineState {
  const Word* ip = nullptr;
  uint64_t* fp = nullptr;
  int64_t fuel = 0;           // of the present slice
  uint8_t* memory = nullptr;  // base of the running instance's memory
  uint64_t acc = 0;           // accumulators; used only where handlers return to a loop
  double acc64 = 0;
  float acc32 = 0;
  FrameRecord* top = nullptr;
  FrameRecord* frames_end = nullptr;
  uint64_t* stack_end = nullptr;
  Instance* instance = nullptr;        // whose code runs
  uint64_t fuel_reserve = 0;           // added, and not yet in a slice
  uint64_t fuel_until_poll = 0;        // of the slices to come
  uint64_t sample_fuel = 0;            // left to the interpreter before the next sample, when it was last
                                       // given fuel; 0 before it was given any (kSampleFuel)
  uint64_t fuel_needed = 0;            // by a bulk operation that could not be paid
  FunctionInstance* callee = nullptr;  // of a call that leaves the instance's own code
  Throwing throwing;
  native::NativeState* native = nullptr;  // of the stack; null until compiled code is called
  Where where = Where::kInterpreter;
  bool at_call = false;     // paused before a host call, not at a segment's header
  bool has_callee = false;  // at_call, thawed: of `callee`
  // Of the host, which compiled code ends in a call of; null otherwise.
  const FunctionInstance* tail_host = nullptr;
  const uint64_t* tail_arguments = nullptr;
  RunState state = RunState::kFinished;
  TrapKind trap_kind = TrapKind::kUnreachable;
  std::string trap_message;
};

// One call of a function from outside, from its start to its end, with pauses. Not movable: the
// interpreter points into it.
struct Execution {
  explicit Execution(ExecutionLimits limits = {});
  ~Execution();
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  // Prepares a call. Errors: kInvalidArgument when the arguments do not match the function's type.
  Status start(FunctionInstance* function, std::span<const Value> arguments);
  void add_fuel(uint64_t fuel);
  // Runs until something of RunState happens.
  RunState resume();

  [[nodiscard]] RunState state() const { return machine_.state; }
  [[nodiscard]] const std::vector<Value>& results() const { return results_; }
  [[nodiscard]] const Trap& trap() const { return trap_; }
  // All that was added less what is left: exact to the instruction.
  [[nodiscard]] uint64_t fuel_used() const;
  [[nodiscard]] uint64_t fuel_left() const;
  // What a host call was owed and could not be paid yet; not in fuel_used().
  [[nodiscard]] uint64_t fuel_owed() const { return fuel_owed_; }
  // It is out of fuel in a host call that has worked for more than there is. Whoever ends the run here takes all that is
  // left for that; with more fuel the call is made again.
  [[nodiscard]] bool fell_short() const { return fell_short_; }
  // Where it stands, innermost first; for pauses.
  [[nodiscard]] std::vector<CodePlace> backtrace();

 private:
  friend struct Machine;
  Status prepare(FunctionInstance* function);
  RunState call_host_entry();
  void take_results();
  void fill_trap();
  bool prepare_native();

  MachineState machine_;
  uint64_t fuel_added_ = 0;
  uint64_t fuel_owed_ = 0;
  bool fell_short_ = false;
  FunctionInstance* entry_ = nullptr;
  std::vector<Value> results_;
  Trap trap_;
  ExecutionLimits limits_;
  std::unique_ptr<struct GuestStack> stack_;
  sigjmp_buf fault_jump_;
  Execution* outer_ = nullptr;  // the one that this thread was running before
  ExecutionLink heap_link_;
};

}  // namespace membrane::engine

// Compiled code in a module, and running it.
//
// A run goes back and forth between the interpreter and compiled code. Neither calls the
// other: a tier whose run must continue in the other stops, says so in MachineState::where, and
// Execution::resume() starts the other. So a pause is possible anywhere, and no host
// stack holds a part of the guest's.
//
// Threads: a ModuleCode is shared by all threads that run the module; the rest belongs to
// one Run.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/code/translate.h"
#include "engine/instance/run.h"
#include "engine/native/code_arena.h"
#include "engine/native/code_cache.h"
#include "engine/native/compiler.h"
#include "engine/native/state.h"
#include "wasm/decoded_body.h"

namespace membrane::engine::native {

// Where a frame at a header of the interpreter's code resumes in machine code (on-stack replacement), and
// what it has there.
struct OsrEntry {
  const uint8_t* code = nullptr;     // the function's
  std::optional<Watch> charge;       // nothing when it cannot
  std::vector<PendingSlot> pending;  // what the interpreter has left out of its slots
};

// The compiled functions of one module.
class ModuleCode {
 public:
  explicit ModuleCode(CompiledModule& module);
  ~ModuleCode();
  ModuleCode(const ModuleCode&) = delete;
  ModuleCode& operator=(const ModuleCode&) = delete;

  // The code of the whole module, when it is in the cache, is used from now on; the frames that go with it.
  std::optional<std::vector<FrameSlots>> find(const CodeCache& cache);
  // The code of the whole module, made before, is used from now on, and connect() is for each function when it is
  // made. False where no code can run.
  bool use(ModuleImage image);
  bool connect(FunctionCode& function) const;  // whether it has code
  // Of those that the module defines.
  void each_without_code(const std::function<void(uint32_t)>& give) const;
  // The code of the whole module, when it was made at once or found; else null.
  [[nodiscard]] const ModuleImage* whole() const;
  // Compiles one function. False when it cannot be, now or ever.
  bool compile_function(uint32_t index);
  [[nodiscard]] size_t code_bytes() const;
  [[nodiscard]] size_t function_count() const;  // of those that have code
  // Who catches what in a function's machine code; null where nothing is caught. Found when it is first asked for.
  const CatchTable* catches(const struct CodeAddress& at);

  // Of a function that has machine code. Found by making both of its codes again, and kept, since frames are at the same
  // places again and again.
  std::shared_ptr<const OsrEntry> osr_entry(const FunctionCode& function, const Word* header);

  // All functions, given one after the other, in their order, and used when all are there. Calls between them are
  // direct.
  class Batch {
   public:
    explicit Batch(ModuleCode& code);
    // `notes` are the validator's, of the function.
    void add(uint32_t function, const wasm::BodyNotes& notes);
    // What could not be compiled is the interpreter's. False when there is no room for code. The code is kept in
    // the cache, when there is one.
    bool finish(const CodeCache* cache);

   private:
    bool write_ways_out();

    ModuleCode& code_;
    Compiler compiler_;
    CodeWriter writer_;
    std::vector<BatchCall> calls_;
    std::vector<uint32_t> image_starts_, indices_;  // as ModuleImage has them
    std::vector<uint32_t> starts_;                  // by function, also of those that were left
    std::vector<uint32_t> left_;                    // what is beyond the compiler
  };

  struct Blob {
    ModuleImage image;
    CompiledModule* module;
    bool batch;  // calls are direct
  };

 private:
  const Blob& keep(ModuleImage image, bool batch);
  void add(ModuleImage image, bool batch);
  bool connect();

  CompiledModule& module_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Blob>> blobs_;
  std::unique_ptr<Compiler> compiler_;    // of compile_function(); null until it is first asked for
  std::unordered_set<uint32_t> refused_;  // functions that could not be compiled
  const Blob* used_ = nullptr;            // by use()
  bool connected_ = false;
  std::unordered_map<uint32_t, std::unique_ptr<CatchTable>>
      catches_;           // null: looked at, and there is nothing
  std::mutex osr_mutex_;  // guards what follows
  std::map<std::pair<uint32_t, uint32_t>, std::shared_ptr<const OsrEntry>>
      osr_entries_;  // by function, and word of its code
  size_t values_of_osr_entries_ = 0;
};

// A function and a place in its code.
struct CodeAddress {
  const FunctionCode* function;
  uint32_t pc;
  bool batch;
};
// Whose code an address is in; nothing when no module's.
std::optional<CodeAddress> find_code(const void* pc);
// Compiles the function again, watched.
void watch(const CodeAddress& at, std::span<Watch> watches);

// The return addresses of one Run, and its NativeState. Null when there is no memory.
struct NativeStack {
  explicit NativeStack(uint32_t call_depth);
  ~NativeStack();
  NativeStack(const NativeStack&) = delete;
  NativeStack& operator=(const NativeStack&) = delete;
  [[nodiscard]] bool usable() const { return memory != nullptr; }
  // To the system: the pages of the inner frames, so that at most `kept` bytes stay. No code may be running on it.
  void give_back(size_t kept);

  NativeState state;
  void* memory = nullptr;
  size_t bytes = 0;
};

// Makes a frame of compiled code the innermost, to be resumed at `pc` of its function as after a call: all its values
// are in their slots.
void resume_at(Run& run, const FunctionCode& function, uint32_t pc, uint64_t* frame, size_t depth);

// Continues in compiled code until something stops it: a pause, the end, or the interpreter's turn.
void run(Run& run);

// The interpreter is at a segment's header: compiles its function, if it can be, and makes the frame one
// of compiled code.
void tier_up(Run& run);

// The address that a frame has as its return address when the interpreter called it.
const void* return_to_interpreter();

}  // namespace membrane::engine::native

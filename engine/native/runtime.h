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

// The place where a frame at a header of the interpreter's code resumes in machine code (on-stack
// replacement), and its state there.
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

  // Uses the code of the whole module from now on, if it is in the cache, and returns its frames.
  std::optional<std::vector<FrameSlots>> find(const CodeCache& cache);
  // Uses the code of the whole module, made before, from now on; call connect() for each function when it is
  // made. False where no code can run.
  bool use(ModuleImage image);
  bool connect(FunctionCode& function) const;  // whether it has code
  // Of those that the module defines.
  void each_without_code(const std::function<void(uint32_t)>& give) const;
  // The code of the whole module, if it was compiled at once or found in the cache; else null.
  [[nodiscard]] const ModuleImage* whole() const;
  // Compiles one function. False when it cannot be, now or ever.
  bool compile_function(uint32_t index);
  [[nodiscard]] size_t code_bytes() const;
  [[nodiscard]] size_t function_count() const;  // of those that have code
  // The clauses in a function's machine code; null when there are none. Found at the first request.
  const CatchTable* catches(const struct CodeAddress& at);

  // Of a function that has machine code. Found by making both of its codes again, and kept, since frames are at the same
  // places again and again.
  std::shared_ptr<const OsrEntry> osr_entry(const FunctionCode& function, const Word* header);

  // Compiles all functions, which are given one after the other, in their order; the code is used once it is
  // complete. Calls between them are direct.
  class Batch {
   public:
    explicit Batch(ModuleCode& code);
    // `notes` are the validator's, of the function.
    void add(uint32_t function, const wasm::BodyNotes& notes);
    // The interpreter runs what could not be compiled. False when there is no room for code. The code is kept in
    // the cache, when there is one.
    bool finish(const CodeCache* cache);

   private:
    bool write_ways_out();

    ModuleCode& code_;
    Compiler compiler_;
    CodeWriter writer_;
    std::vector<BatchCall> calls_;
    std::vector<uint32_t> image_starts_, indices_;  // as ModuleImage has them
    std::vector<uint32_t> starts_;                  // by function, also of those that were not compiled
    std::vector<uint32_t> left_;                    // for functions beyond the compiler's limits
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
  std::unique_ptr<Compiler> compiler_;    // of compile_function(); null until its first call
  std::unordered_set<uint32_t> refused_;  // functions that could not be compiled
  const Blob* used_ = nullptr;            // by use()
  bool connected_ = false;
  std::unordered_map<uint32_t, std::unique_ptr<CatchTable>> catches_;  // null: checked, and there are none
  std::mutex osr_mutex_;                                               // guards what follows
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
// The function that an address is in; nothing when it is in no module's code.
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
  // Returns the pages of the inner frames to the system, so that at most `kept` bytes stay. No code may be running
  // on it.
  void give_back(size_t kept);

  NativeState state;
  void* memory = nullptr;
  size_t bytes = 0;
};

// Makes a frame of compiled code the innermost, which resumes at `pc` of its function as after a call: all its values
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

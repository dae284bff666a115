// Exceptions: tags, the exceptions that were caught with a reference, and finding the clause that catches.
//
// Entering and leaving a try_table does nothing: the translator notes which words of the code lie in which try_table
// (CatchTable, code.h). The search for a clause begins when something is thrown, and goes through all frames before
// any is left: an exception that nothing catches stops the run where it was thrown, with its frames still there.
// The search and the unwinding know the frames of both tiers, so a tier asks its Run for them (run.h).
//
// Threads: one at a time, as for the Store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/code/code.h"
#include "wasm/types.h"

namespace membrane::engine {

class Instance;

// What distinguishes exceptions: two tags of the same type are still two.
struct TagInstance {
  const wasm::FuncType* type = nullptr;  // without results
  uint32_t slots = 0;                    // of what an exception carries
  const Instance* instance = nullptr;    // the owner; null for the host's
  uint32_t index = 0;                    // in its module
};

// The exceptions that were caught with a reference to them (exnref). A reference may be put into a global, a
// table or another exception, so they live as long as the Store; the limits of the instance that threw them bound their
// number. They take memory in pages of kPageBytes, and no other memory of the host; the pages are the same in each tier
// and after thawing. The host lends some; the rest comes out of that instance's memory limit.
class ExceptionArena {
 public:
  struct Exception {
    const TagInstance* tag;
    [[nodiscard]] const uint64_t* payload() const { return reinterpret_cast<const uint64_t*>(this + 1); }
  };
  static_assert(sizeof(Exception) == sizeof(uint64_t));

  static constexpr uint64_t kLentPages = 16;

  // How many pages another exception of the tag takes beyond those that exist or that the host lends.
  [[nodiscard]] uint64_t pages_to_add(const TagInstance& tag) const;
  // The reference: its number plus one.
  uint64_t add(const TagInstance* tag, const uint64_t* payload);
  // Null for null, and for a number that is not a reference.
  [[nodiscard]] const Exception* find(uint64_t reference) const {
    if (reference == 0 || reference > size_) return nullptr;
    return places_[(reference - 1) / kPageWords][(reference - 1) % kPageWords];
  }
  [[nodiscard]] size_t size() const { return size_; }
  // The bytes that one takes: its place among the others, its tag, and what it carries.
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

// What is thrown, on its way to the clause that catches it.
struct Throwing {
  const TagInstance* tag = nullptr;
  const uint64_t* payload = nullptr;
  uint64_t reference = 0;  // when it was caught before, and is thrown again
  uint64_t looked_at = 0;  // by a search that was interrupted, and begins again
};

// The result of a search for the clause that catches.
struct CatchSearch {
  uint64_t price = 0;  // of throwing, as far as it was looked
  bool interrupted = false;
  const CatchTable::Clause* clause = nullptr;  // null when nothing catches, or the search was not finished
  const FunctionCode* function = nullptr;      // that catches
  uint64_t* fp = nullptr;                      // of its frame
  size_t depth = 0;                            // of its record, or of its return address
  bool is_compiled = false;                    // it is machine code that catches
  Instance* instance = nullptr;                // the owner
};

// The tier that resumes after an exception was caught. kNoRoom: nothing was done, since the limit allows no
// more exceptions to be kept.
enum class Caught : uint8_t { kInterpreted, kCompiled, kNoRoom };

// "uncaught exception $error [i32 7]".
std::string describe(const Throwing& throwing);

}  // namespace membrane::engine

// Who catches what in a function, and where control goes then: its CatchTable while it is made.
//
// A clause lands after the function's code: there, what the place where the clause leads has in registers is loaded
// from the slots. The place of a loop is known when the clause is seen; that of another label is known at its end.
//
// Invariants: there is a landing for each clause, by number. Until the end of its label, Clause::landing is a link of
// the label's chain; after write() it is the landing's place.
//
// Threads: belongs to one compiler. Memory is kept from one function to the next.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/code/code.h"
#include "engine/native/pinned_locals.h"
#include "wasm/body.h"

namespace membrane::engine::native {

class CatchLandings {
 public:
  static constexpr uint32_t kNone = CatchTable::kNone;  // of a chain that is empty
  // The target of a clause, and what is in registers there.
  struct Landing {
    bool returns = false;
    uint32_t target = 0;
    PinSet pins = 0;
    friend bool operator==(const Landing&, const Landing&) = default;
  };

  void start() {
    table_.boundaries.clear();
    table_.regions.clear();
    table_.clauses.clear();
    landings_.clear();
  }
  // What is caught is put at `slot`. One whose place is not yet known is linked into the chain.
  void add_returning(const wasm::CatchClause& clause) { add(clause, kNone, 0, {.returns = true}); }
  void add_known(const wasm::CatchClause& clause, uint32_t slot, uint32_t target, PinSet pins) {
    add(clause, kNone, slot, {.target = target, .pins = pins});
  }
  void add_waiting(const wasm::CatchClause& clause, uint32_t slot, uint32_t& chain) {
    const auto number = static_cast<uint32_t>(table_.clauses.size());
    add(clause, chain, slot, {});
    chain = number;
  }
  // The clauses of the chain, which is then empty, lead to `target`.
  void land(uint32_t& chain, uint32_t target, PinSet pins) {
    for (uint32_t at = chain; at != kNone; at = table_.clauses[at].landing)
      landings_[at] = {.target = target, .pins = pins};
    chain = kNone;
  }
  void add_region(uint32_t outer, uint32_t first, uint32_t count) {
    table_.regions.push_back({outer, first, count});
  }
  void begin_region(uint32_t at, uint32_t region) { table_.boundaries.push_back({at, region}); }

  // Calls write_one(landing), which returns the place in the code where it wrote it, for each landing; once for equal
  // neighbours.
  template <typename F>
  void write(const F& write_one) {
    for (size_t i = 0; i < landings_.size(); ++i) {
      const bool is_same = i > 0 && landings_[i] == landings_[i - 1];
      table_.clauses[i].landing = is_same ? table_.clauses[i - 1].landing : write_one(landings_[i]);
    }
  }
  [[nodiscard]] const CatchTable& table() const { return table_; }

 private:
  void add(const wasm::CatchClause& clause, uint32_t link, uint32_t slot, const Landing& landing) {
    table_.clauses.push_back({clause, link, slot});
    landings_.push_back(landing);
  }

  CatchTable table_;
  std::vector<Landing> landings_;
};

}  // namespace membrane::engine::native

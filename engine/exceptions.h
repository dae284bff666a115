// Who catches what is thrown.
//
// Entering and leaving a try_table does nothing: the translator notes by the words of the code what would be
// caught where (CatchTable, code.h). So it is looked for when something is thrown, through all frames, before
// any is left: what nobody catches stops the run where it was thrown, with its frames still there.
//
// Compiled code catches nothing (functions with a try_table are the interpreter's), so that its frames
// are only passed by. Frames are left by forgetting them: whoever runs next finds the stacks by the
// innermost record.
//
// Threads: one Execution's.
#pragma once

#include <cstdint>
#include <string>

#include "engine/code.h"
#include "engine/instance.h"

namespace membrane::engine {

struct CatchSearch {
  uint64_t price = 0;  // of throwing, as far as it was looked
  bool interrupted = false;
  const CatchTable::Clause* clause = nullptr;  // null when nobody catches, or it was not looked to the end
  const FunctionCode* function = nullptr;      // that catches
  uint64_t* fp = nullptr;                      // of its frame
  size_t depth = 0;                            // of its record
  Instance* instance = nullptr;                // whose it is
};

// Looks for who catches `throwing` of the run, which stands at the instruction that throws. Gives up when
// the price is above `most_fuel`. Asks the owner's poll now and then, as it can take long.
CatchSearch find_catch(Execution& ex, uint64_t most_fuel);

// Leaves all frames above that of whoever catches, puts there what was caught, and gives the segment where it
// goes on. Null when there are too many exceptions for another to be kept.
const Word* land(Execution& ex, const CatchSearch& found);

// "uncaught exception $error [i32 7]".
std::string describe(const Throwing& throwing);

}  // namespace membrane::engine

// Who catches what is thrown.
//
// Entering and leaving a try_table does nothing: the translator notes by the words of the code what would be
// caught where (CatchTable, code.h). So it is looked for when something is thrown, through all frames, before
// any is left: what nobody catches stops the run where it was thrown, with its frames still there.
//
// Of compiled code, who catches what is found by compiling a function again when an exception first passes it.
// Frames are left by forgetting them: whoever runs next finds the stacks by the innermost record, or by the
// return address of the frame that catches.
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
  size_t depth = 0;                            // of its record, or of its return address
  bool is_compiled = false;                    // it is machine code that catches
  Instance* instance = nullptr;                // whose it is
};

// Looks for who catches `throwing` of the run, which stands at the instruction that throws. Gives up when
// the price is above `most_fuel`. Asks the owner's poll now and then, as it can take long.
CatchSearch find_catch(Execution& ex, uint64_t most_fuel);

// Leaves all frames above that of whoever catches, and puts there what was caught. Then the interpreter goes on
// at the segment that MachineState::ip names, or compiled code does, as MachineState::where says. kNoRoom: nothing
// was done, since there are too many exceptions for another to be kept.
enum class Landed : uint8_t { kInterpreted, kCompiled, kNoRoom };
Landed land(Execution& ex, const CatchSearch& found);

// "uncaught exception $error [i32 7]".
std::string describe(const Throwing& throwing);

}  // namespace membrane::engine

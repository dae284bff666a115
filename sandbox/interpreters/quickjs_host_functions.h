// The functions that Membrane's prelude (lang/javascript/guest) calls in the host: each is a method of QuickJS's own
// kind of host function, which the module calls by name through its import env.host_call.
//
// Threads: as the Calls.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sandbox/interpreters/interpreter.h"

namespace membrane::sandbox {

// The names, in the order in which the template defines them.
std::span<const std::string_view> quickjs_host_functions();

// The prelude's `where`, which says by __membrane_place where a stopped program is; both are boxes.
struct QuickJsWhere {
  uint32_t function = 0, undefined = 0;
};

// env.host_call: (name, its length, this, how many arguments, their boxes) gives a box, 0 with an exception.
engine::HostAction call_quickjs_host_function(Calls& calls, engine::HostCall& call,
                                              const QuickJsWhere& where);

// A stopped program runs on, and the engine asks whether it shall: notes where it last called or read something. The
// interruption that follows has a place of its own.
void note_place_of_poll(Calls& calls, engine::HostCall& call, const QuickJsWhere& where);

// A promise was rejected with this error while a stopped program was asked for its place, maybe by the interruption.
engine::HostAction note_place_of_rejection(uint32_t error, Calls& calls, engine::HostCall& call,
                                           const QuickJsWhere& where);

}  // namespace membrane::sandbox

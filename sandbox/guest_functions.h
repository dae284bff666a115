// Functions of the embedder for programs in languages: a program calls them by name, with values and for a value.
//
//   program ─▶ {"functions":[{"call":"shop.price","arguments":["tea"],"keywords":{}}]} ─▶ GuestFunctions::call
//           ◀─ {"answers":[{"value":350}]}
//
// The policy does not decide on them, and no journal has them (a run that replays calls them again). Each counts as a host call and is
// listed in the report.
//
// A function may answer "later": the turn then pauses in the call (Outcome::kWaiting), can be forked and kept as bytes, and resumes with
// the answer (Session::resume()), in this process or another.
//
// Values are JSON. What JSON lacks is an object with one member whose name begins with '$': {"$bytes":"base64"}, {"$integer":"2^64"},
// {"$number":"nan"}, {"$tuple":[…]}, {"$set":[…]}, {"$time":"ISO 8601"}, {"$map":[[key,value],…]}, {"$object":{"id":1,"type":"Account"}}.
// A map with one such name is written as a $map. The host passes them on unread.
//
// Threads: called on the thread of the turn.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/dispatch.h"
#include "host/errno.h"
#include "host/world.h"

namespace membrane::sandbox {

struct FunctionCall {
  std::string name;       // "price"; of a module "shop.price"; of an object's class "Account.deposit"
  std::string arguments;  // a JSON array
  std::string keywords;   // a JSON object
  std::string object;     // the id of the object that it is a method of, as JSON; "" for a function

  friend bool operator==(const FunctionCall&, const FunctionCall&) = default;
};

struct FunctionAnswer {
  enum class Kind : uint8_t { kValue, kError, kLater };
  Kind kind = Kind::kValue;
  std::string value = "null";  // of kValue: JSON
  // Of kError, which is raised in the program: the name of an exception that the language has, else it is its usual one.
  std::string type, message;

  static FunctionAnswer later() { return {.kind = Kind::kLater, .value = {}, .type = {}, .message = {}}; }
  static FunctionAnswer error(std::string type, std::string message) {
    return {.kind = Kind::kError, .value = {}, .type = std::move(type), .message = std::move(message)};
  }
  friend bool operator==(const FunctionAnswer&, const FunctionAnswer&) = default;
};

// Whether the turn that calls is to end: it was cancelled, or its time is up. Any thread, until the call has returned.
using MustStop = std::function<bool()>;

struct GuestFunctions {
  // What programs see: {"functions":[{"name":"price","module":"shop","signature":"(item: str) -> int","doc":"…","is_async":false}],
  // "types":[{"name":"Account","doc":"…","methods":[…],"attributes":["balance"]}],"values":{…}}. Read by the guest's side of the language
  // (lang/python/guest/membrane/_functions.py, lang/javascript/guest/functions.js); "" for none.
  std::string description;
  // Answers the calls, in their order; several were made at once and may be answered concurrently. Answers that are missing fail. The
  // turn does not end before it returns, which is why what takes long asks `must_stop`.
  std::function<std::vector<FunctionAnswer>(std::span<const FunctionCall>, const MustStop& must_stop)> call;
};

// What stands for a description, to know it again: "" for none. Finds changes, and no forgeries.
std::string digest_of(const std::string& description);
// Whether a program that was told the one description has all of the other, which may leave out the values.
bool has_been_told(std::string_view told, std::string_view given);

// Functions that were called at once, and their answers, of which some may be still to come.
struct KeptCalls {
  std::vector<FunctionCall> calls;
  std::vector<FunctionAnswer> answers;  // as many
};
bool is_waiting(const KeptCalls& calls);
std::vector<FunctionCall> waiting_of(const std::optional<KeptCalls>& calls);  // those that have no answer yet
// Puts the answers in the places of those that are "later", in their order. False when there are more of them.
bool fill_in(KeptCalls& calls, std::vector<FunctionAnswer> answers);
// Calls what host calls are left for in `world`; the others fail. As many answers as calls.
std::vector<FunctionAnswer> answer_paid_calls(const GuestFunctions& functions, host::World& world,
                                              std::span<const FunctionCall> calls, const MustStop& must_stop);

// Of a request. Errors: kInvalid for what is none; kTooBig.
host::HostResult<std::vector<FunctionCall>> read_function_calls(std::string_view request,
                                                                uint64_t memory_bytes);
// Of calls that another process has read for this one: as read_function_calls() would have given them.
[[nodiscard]] bool are_sound(std::span<const FunctionCall> calls);
// {"answers":[…]}. A value that is no JSON becomes an error. None may be kLater.
std::string write_function_answers(std::span<const FunctionAnswer> answers);
// The report's line of a call that has its answer.
host::CallRecord line_of(const FunctionCall& call, const FunctionAnswer& answer, uint64_t latency_us);

}  // namespace membrane::sandbox

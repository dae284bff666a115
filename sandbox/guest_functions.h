// Functions of the embedder for programs in languages: a program calls them by name, passes values and gets a value.
//
//   program ─▶ {"functions":[{"call":"shop.price","arguments":["tea"],"keywords":{}}]} ─▶ GuestFunctions::call
//           ◀─ {"answers":[{"value":350}]}
//
// The policy does not decide about them, and no journal records them (a replay calls them again). Each counts as a
// host call and is listed in the report.
//
// A function may answer "later": the turn then pauses in the call (Outcome::kWaiting), can be forked and saved as
// bytes, and resumes with the answer (Session::resume()), in this process or another.
//
// Values are JSON. A value that JSON lacks is an object with one member whose name begins with '$':
// {"$bytes":"base64"}, {"$integer":"2^64"}, {"$number":"nan"}, {"$tuple":[…]}, {"$set":[…]}, {"$time":"ISO 8601"},
// {"$map":[[key,value],…]}, {"$object":{"id":1,"type":"Account"}}. A map with one such name is written as a $map.
// The host passes them on unread.
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
  std::string object;     // for a method: the id of its object, as JSON; "" for a function

  friend bool operator==(const FunctionCall&, const FunctionCall&) = default;
};

struct FunctionAnswer {
  enum class Kind : uint8_t { kValue, kError, kLater };
  Kind kind = Kind::kValue;
  std::string value = "null";  // for kValue: JSON
  // For kError, which is raised in the program: the name of an exception of the language; for another name, its
  // generic one.
  std::string type, message;

  static FunctionAnswer later() { return {.kind = Kind::kLater, .value = {}, .type = {}, .message = {}}; }
  static FunctionAnswer error(std::string type, std::string message) {
    return {.kind = Kind::kError, .value = {}, .type = std::move(type), .message = std::move(message)};
  }
  friend bool operator==(const FunctionAnswer&, const FunctionAnswer&) = default;
};

// Whether the calling turn must end: it was cancelled, or its time is up. Any thread, until the call has returned.
using MustStop = std::function<bool()>;

struct GuestFunctions {
  // What programs see: {"functions":[{"name":"price","module":"shop","signature":"(item: str) ->
  // int","doc":"…","is_async":false}],
  // "types":[{"name":"Account","doc":"…","methods":[…],"attributes":["balance"]}],"values":{…}}. Read by the guest
  // part of the language (lang/python/guest/membrane/_functions.py, lang/javascript/guest/functions.js); "" for
  // none.
  std::string description;
  // Answers the calls, in their order; concurrent calls may be answered concurrently. A missing answer is a failure.
  // The turn does not end before this returns, so a long function should poll `must_stop`.
  std::function<std::vector<FunctionAnswer>(std::span<const FunctionCall>, const MustStop& must_stop)> call;
  bool has_values = false;  // the description has: they are input, to the trifecta rule
};

// Whether the text can be the name of a function, a type, a module or an input: ASCII letters, digits and _, not a digit first.
[[nodiscard]] bool is_identifier(std::string_view name);

// Identifies a description: "" for none. Detects changes, but not forgeries.
std::string digest_of(const std::string& description);
// Of digests: whether the description has values; whether a program that was given `known` needs nothing of `given`. Values are given
// once: a program that has some keeps them.
bool describes_values(std::string_view digest);
bool covers_description(std::string_view known, std::string_view given);
// What the program has after it, too, was given: the functions of `given`, and the first values.
std::string add_description(std::string_view known, std::string_view given);

// Concurrent calls of functions, and their answers, some of which may be pending.
struct KeptCalls {
  std::vector<FunctionCall> calls;
  std::vector<FunctionAnswer> answers;  // one per call
};
bool is_waiting(const KeptCalls& calls);
std::vector<FunctionCall> waiting_of(
    const std::optional<KeptCalls>& calls);  // the calls that have no answer yet
// Replaces the answers that are "later", in their order. False when there are more answers than that.
bool fill_in(KeptCalls& calls, std::vector<FunctionAnswer> answers);
// Calls the functions that `world` has host calls left for; the others fail. One answer per call.
std::vector<FunctionAnswer> answer_paid_calls(const GuestFunctions& functions, host::World& world,
                                              std::span<const FunctionCall> calls, const MustStop& must_stop);

// Parses a request. Errors: kInvalid for a malformed one; kTooBig.
host::HostResult<std::vector<FunctionCall>> read_function_calls(std::string_view request,
                                                                uint64_t memory_bytes);
// Whether calls that another process parsed could have come from read_function_calls().
[[nodiscard]] bool are_sound(std::span<const FunctionCall> calls);
// {"answers":[…]}. A value that is not JSON becomes an error. None may be kLater.
std::string write_function_answers(std::span<const FunctionAnswer> answers);
// The report's line for an answered call.
host::CallRecord line_of(const FunctionCall& call, const FunctionAnswer& answer, uint64_t latency_us);

}  // namespace membrane::sandbox

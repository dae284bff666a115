// Capabilities for programs in languages: requests and answers are JSON, whatever carries them (the device
// /dev/membrane, a host callback). The calls are the same as those of WebAssembly: the same checks, fuel, broker,
// records and refusals (host/calls/dispatch.h).
//
//   {"call":"http.get","arguments":["https://…"]}
//       {"value":"…"}            null for a function that gives nothing
//       {"error":{"errno":"EACCES","number":1,"message":"…","grant":"--allow …"}}
//   {"registry":true}            what capabilities_json() says
//   {"session":"next"}           the next piece of code to run: whatever the session answers
//   {"session":"result",…}       its outcome; the other members are the session's
//   {"session":"file","path":"/lib/x.js"}  the text of a file that the program may read
//   {"session":"input"}          the next bytes of the program's input; "" at its end
//   {"session":"memory"}         how many bytes of memory the program has
//   {"functions":[{"call":"shop.price","arguments":[…],"keywords":{…}},…]}  functions of the embedder, called at once
//       {"answers":[{"value":…},{"error":{"type":"ValueError","message":"…"}}]}
//   {"files":"open","path":"/x","write":true,"create":true}  a call of WASI about files, where the program's module
//       imports none: also exclusive, truncate, append; the value is a descriptor. The others:
//       close, stat (descriptor); read (descriptor, count, offset?), write (descriptor, bytes, offset?) and resize
//       (descriptor, size), bytes as {"base64":…}; stat (path, follow), list, make_directory, remove_directory, unlink,
//       read_link (path); rename, link (path, to); symlink (target, path); set_times (path, accessed_ns, modified_ns).
//       An error has the errno of WASI, and the grant that is missing.
//
// Where JSON has no such value, an object stands for it, in arguments and in values:
//   {"base64":"/w=="}            a string that is not UTF-8
//   {"integer":"9007199254740993"}  an integer past 2^53, which not every language's JSON keeps
//   {"number":"nan"}             also "inf" and "-inf"
//
// The first member determines the kind of a request. A malformed one is answered with EINVAL, and does nothing.
//
// Threads: one at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "host/calls/dispatch.h"

namespace membrane::host {

// Provides code to an interpreter, and receives the results.
class DoorSession {
 public:
  virtual ~DoorSession() = default;
  // The next turn, as JSON.
  virtual HostResult<std::string> next() = 0;
  // `request` is the whole request, parsed only up to its "session"; `memory` bounds what parsing and keeping it
  // takes.
  virtual HostResult<void> take_result(std::string_view request, HostMemory& memory) = 0;
  // The next bytes of the program's input, if the turn has any; "" at its end.
  virtual HostResult<std::string> read_input() { return std::string(); }
  // A file that the program may read: its own, or from a grant.
  virtual HostResult<std::string> read_file(std::string_view path) {
    return refuse(Errno::kUnsupported, "there are no files, so no " + std::string(path));
  }
  // An answer as JSON. `end` is kReturn, kOutOfFuel (it did nothing that cannot be repeated), kOutOfOutput or
  // kWaits; the last three have no answer.
  struct JsonAnswer {
    std::string json;
    CallEnd end = CallEnd::kReturn;
  };
  // For functions of the embedder. `may_wait`: the program can be paused in this request.
  virtual HostResult<JsonAnswer> call_functions(std::string_view /*request*/, bool /*may_wait*/) {
    return refuse(Errno::kUnsupported, "there are no functions of the embedder");
  }
  // Nothing: the program has other functions for files.
  virtual std::optional<JsonAnswer> ask_files(std::string_view /*request*/) { return std::nullopt; }
};

class Door {
 public:
  // The cost of a request in addition to its call: for each byte of it and of its answer.
  static constexpr Cost kCost{.base = 20, .per_byte = 1};
  // A longer request is paid for before it is read.
  static constexpr size_t kMaxOwedBytes = 64u << 10;
  static constexpr size_t kMaxRequestBytes = 64u << 20;

  // All are borrowed, and must outlive the door. Without a session its requests return ENOTSUP.
  Door(Guest& guest, Dispatcher& dispatcher, DoorSession* session = nullptr)
      : guest_(guest), dispatcher_(dispatcher), session_(session) {}

  // The answer; "" when the program does not continue after the request (see end()). After kOutOfFuel and kWaits
  // nothing was done, but reading a long request may have been paid: refund that, and with more fuel, or the
  // embedder's answer, pass the same request again. `may_wait`: see DoorSession::call_functions(). A request and its
  // answer need host memory, which is limited per sandbox (host_memory.h): E2BIG, ENOMEM.
  std::string answer(std::string_view request, bool may_wait = true);
  // How the last request ended: kReturn, kExit, kOutOfFuel, kWaits or kOutOfOutput.
  [[nodiscard]] CallEnd end() const { return end_; }
  // Whether it requested a turn, sent a turn's result, or called functions of the embedder.
  [[nodiscard]] bool was_of_turn() const { return was_of_turn_; }

 private:
  std::string answer_any(std::string_view request, bool may_wait);
  std::string answer_call(std::string_view request);
  std::string answer_session(std::string_view what, std::string_view request);
  std::string answer_files(std::string_view request);
  std::string answer_functions(std::string_view request, bool may_wait);
  std::string answer_of(Value value);

  Guest& guest_;
  Dispatcher& dispatcher_;
  DoorSession* session_;
  CallEnd end_ = CallEnd::kReturn;
  bool was_of_turn_ = false;
};

}  // namespace membrane::host

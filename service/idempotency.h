// Requests that a client may safely repeat: each carries a key of the client's (Idempotency-Key), and its
// answer is kept for a day. The same key with the same request returns the same answer, and nothing is done
// twice.
//
// An answer that was refused for a temporary reason (429, 5xx) is not kept, since nothing was done. For each
// scope at most `most_kept` answers with small bodies are kept, in the database; its own oldest ones are
// dropped first.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/errors.h"
#include "service/http.h"
#include "service/state.h"

namespace membrane::service {

class Idempotency {
 public:
  static constexpr int64_t kKeptForMs = 24ll * 3'600'000;
  static constexpr size_t kMostBodyBytes = 1u << 20;

  static constexpr uint64_t kMostKeptBytes = 64u << 20;  // of a scope

  // `state` is borrowed. Loads earlier answers. Errors: those of State.
  static Result<std::unique_ptr<Idempotency>> open(State& state, size_t most_kept = 10'000);

  // A valid key has 1 to 255 printable ASCII characters.
  [[nodiscard]] static bool is_key(std::string_view key);

  // Returns the answer that was given before; nothing for a new request: carry it out, and call finish()
  // with its answer. `scope`: whose keys they are. `request`: everything that distinguishes one
  // request from another. Errors: kConflict while the first one is in progress, and for one whose answer was
  // a stream or is too large to keep; kInvalidValue for a key that was used for another request.
  Answer<std::optional<Response>> begin(std::string_view scope, std::string_view key,
                                        std::string_view request, int64_t now_ms);
  void finish(std::string_view scope, std::string_view key, const Response& response);

 private:
  struct Kept {
    std::string request;  // its SHA-256
    int64_t began_at_ms = 0;
    bool is_done = false;
    uint64_t size_bytes = 0;  // 0: the answer is not kept
  };
  using Name = std::pair<std::string, std::string>;
  Idempotency(State& state, size_t most_kept) : state_(state), most_kept_(most_kept) {}
  struct Scope {
    std::map<std::string, Kept, std::less<>> kept;
    uint64_t kept_bytes = 0;
    std::deque<std::pair<int64_t, std::string>> by_age;  // including some that are forgotten
  };
  [[nodiscard]] std::vector<Name> forget_old(int64_t now_ms);
  [[nodiscard]] Kept* find(std::string_view scope, std::string_view key);

  State& state_;
  const size_t most_kept_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, Scope, std::less<>> scopes_;
};

}  // namespace membrane::service

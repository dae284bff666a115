// A session between two turns, or with one paused, as bytes: its state without its template. For the format see
// docs/session-format.md.
//
// The policy is not included: the restoring caller decides what is granted. Nor is the outside world: files, stores,
// databases and the real clock are as they are at that time.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/freeze/instance_image.h"
#include "host/dispatch.h"
#include "host/flows.h"
#include "host/local_broker.h"
#include "host/random.h"
#include "host/time_zone.h"
#include "sandbox/session.h"

namespace membrane::sandbox {

// 6: for a session whose turn has inputs and is paused before its program has asked for the turn; 5: one whose program has
// been given functions of the embedder; 4: one that has been given a time zone; 3: one that waits for functions of the
// embedder; 2: one that has read data marked by the trifecta rule. Others are written as 1.
inline constexpr uint32_t kSessionVersion = 6;

// The state of its program. Large members are borrowed.
struct KeptPlace {
  std::span<const uint8_t>
      changes;                    // from engine::write_changes(); empty: the instance equals the template's
  std::span<const uint8_t> wasi;  // from wasi::System::freeze()
  enum class Waits : uint8_t { kNowhere, kAsTheTemplate, kInItsFrames } waits = Waits::kNowhere;
  std::span<const uint8_t> frames;          // for kInItsFrames
  uint64_t heap_next = 0;                   // for kInItsFrames
  std::optional<host::TimeZone> time_zone;  // as given to the program
  std::string functions;                    // the digest of the functions given to the program; "" for none
};

struct KeptDenial {
  host::Errno code{};
  std::string reason, grant;
};

// A paused turn.
struct KeptPause {
  std::span<const uint8_t> frames;
  std::vector<uint32_t> notes, progress;
  uint64_t fuel_used = 0;
  std::optional<Turn> turn;           // unless the program has requested it
  std::optional<std::string> result;  // once the program has returned it, as JSON
  uint64_t result_bytes = 0;          // of host memory
  uint64_t output_bytes = 0;          // printed so far
  uint64_t host_calls = 0, bytes_in = 0, bytes_out = 0, tokens = 0;  // taken from the turn's own budget
  host::Dispatcher::History history;
  KeptPlace before;  // the state to return to
  std::optional<KeptCalls> calls;
};

struct SessionState {
  std::string template_name;  // for messages
  engine::ImageIdentity template_identity{};
  KeptPlace place;
  bool memory_limit_was_hit = false;
  std::optional<KeptDenial> last_denial;  // for its files
  uint64_t heap_next = 0;
  uint64_t turns = 0;
  bool needs_entropy = false;
  std::optional<RandomStream> fresh;  // always present
  host::LocalBroker::Position sources;
  std::string input_ahead;  // from RunOptions::read_input
  uint64_t input_bytes = 0;
  bool input_is_over = false;
  std::optional<KeptPause> pause;
  host::FlowState flows;
};

std::vector<uint8_t> write_session(SessionState state);
// The result borrows from the bytes. Errors: kInvalidInput for an invalid state, kUnsupported for another version or
// cost table.
Result<SessionState> read_session(std::span<const uint8_t> bytes);

// Writes a valid checksum into modified bytes, so that tests and fuzzers reach the later checks. False if they are
// too short to have one.
bool repair_session_checksum(std::span<uint8_t> bytes);

}  // namespace membrane::sandbox

// A session between two turns, or where one is paused, as bytes: what it is besides its template. Byte by byte in
// docs/session-format.md.
//
// The policy is not in it: whoever restores says what is granted. Nor is the world: files, stores, databases and the
// real clock are found as they are.
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

// Of a session whose program has been told functions of the embedder's. 4: of one that has been told a time zone; 3: of one that waits for functions of the embedder's; 2: of one that has read
// what the trifecta rule minds. Others are written as 1.
inline constexpr uint32_t kSessionVersion = 5;

// Where its program is. What is large is borrowed.
struct KeptPlace {
  std::span<const uint8_t>
      changes;                    // of engine::write_changes(); empty: its instance is as the template has it
  std::span<const uint8_t> wasi;  // of wasi::System::freeze()
  enum class Waits : uint8_t { kNowhere, kAsTheTemplate, kInItsFrames } waits = Waits::kNowhere;
  std::span<const uint8_t> frames;          // of kInItsFrames
  uint64_t heap_next = 0;                   // the same
  std::optional<host::TimeZone> time_zone;  // that the program has been told
  std::string functions;                    // the digest of those that it has been told; "" for none
};

struct KeptDenial {
  host::Errno code{};
  std::string reason, grant;
};

// A turn that is paused.
struct KeptPause {
  std::span<const uint8_t> frames;
  std::vector<uint32_t> notes, progress;
  uint64_t fuel_used = 0;
  std::optional<Turn> turn;                                          // when the program has not asked for it
  std::optional<std::string> result;                                 // when it has given it, as JSON
  uint64_t result_bytes = 0;                                         // of the host's memory
  uint64_t output_bytes = 0;                                         // printed so far
  uint64_t host_calls = 0, bytes_in = 0, bytes_out = 0, tokens = 0;  // taken from the turn's own budget
  host::Dispatcher::History history;
  KeptPlace before;  // to go back to
  std::optional<KeptCalls> calls;
};

struct SessionState {
  std::string template_name;  // for messages
  engine::ImageIdentity template_identity{};
  KeptPlace place;
  bool memory_limit_was_hit = false;
  std::optional<KeptDenial> last_denial;  // of its files
  uint64_t heap_next = 0;
  uint64_t turns = 0;
  bool needs_entropy = false;
  std::optional<RandomStream> fresh;  // always there
  host::LocalBroker::Position sources;
  std::string input_ahead;  // of what RunOptions::read_input gave
  uint64_t input_bytes = 0;
  bool input_is_over = false;
  std::optional<KeptPause> pause;
  host::FlowState flows;
};

std::vector<uint8_t> write_session(SessionState state);
// It borrows from the bytes. Errors: kInvalidInput for what is no such state, kUnsupported for another version or cost
// table.
Result<SessionState> read_session(std::span<const uint8_t> bytes);

// Writes the checksum into bytes that were changed on purpose, so that tests and fuzzers reach the checks that come after
// it. False for what is too short to have one.
bool repair_session_checksum(std::span<uint8_t> bytes);

}  // namespace membrane::sandbox

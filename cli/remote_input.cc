#include "cli/remote_input.h"

#include <chrono>
#include <utility>

#include "agent/retry.h"
#include "cli/command_remote.h"
#include "cli/input_source.h"

namespace membrane::cli {

namespace {
constexpr uint64_t kLookAgainMs = 500;
constexpr std::chrono::milliseconds kPatience(50);
}  // namespace

RemoteInput::RemoteInput(Remote remote, const std::string& sandbox, std::string exec)
    : remote_(std::move(remote)),
      path_(of_sandbox(sandbox, {"execs", std::move(exec), "stdin"})),
      thread_([this] { run(); }) {}

RemoteInput::~RemoteInput() {
  is_over_ = true;
  thread_.join();
}

void RemoteInput::run() {
  auto source = InputSource::open("-");
  remote_.set_cancel(&is_over_);
  while (source && !is_over_) {
    const sandbox::InputPiece piece = source->read(kPatience);
    if (piece.bytes.empty() && !piece.is_end) continue;
    if (!give(piece) || piece.is_end) return;
  }
}

// Sends bytes again for which the exec has no room yet. False: it accepts no more.
bool RemoteInput::give(const sandbox::InputPiece& piece) {
  RemoteRequest request{
      .method = "POST", .path = path_, .body = piece.bytes, .content_type = "application/octet-stream"};
  if (piece.is_end) request.query = {{"eof", "true"}};
  while (!is_over_) {
    const auto taken = remote_.send(request);
    if (taken) return true;
    if (taken.error().code != ErrorCode::kExhausted) return false;
    agent::RetryClock::real().wait_ms(kLookAgainMs, &is_over_);
  }
  return false;
}

}  // namespace membrane::cli

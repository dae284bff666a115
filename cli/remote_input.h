// Passes this command's standard input to an exec of a service.
//
// Threads: one of its own, from construction to destruction.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cli/remote.h"
#include "sandbox/sandbox.h"

namespace membrane::cli {

// Sends the input to an exec as it comes, until it ends or the exec accepts no more.
class RemoteInput {
 public:
  RemoteInput(Remote remote, const std::string& sandbox, std::string exec);
  ~RemoteInput();
  RemoteInput(const RemoteInput&) = delete;
  RemoteInput& operator=(const RemoteInput&) = delete;

 private:
  void run();
  bool give(const sandbox::InputPiece& piece);

  Remote remote_;
  const std::vector<std::string> path_;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;  // last member, since it uses all others
};

}  // namespace membrane::cli

// This command's standard input for an exec of a service.
//
// Threads: one of its own, from its beginning to its end.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cli/remote.h"
#include "sandbox/sandbox.h"

namespace membrane::cli {

// Returns an exec the input as it comes, until that ends or the exec takes no more.
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
  std::thread thread_;  // the last, since it uses all else
};

}  // namespace membrane::cli

// Serves directories of this machine to a Linux sandbox (linux/granted/): each request of its kernel process is decided and done by the files
// of the broker (host/files/), which open paths beneath the directory and hold the grant's bounds. The kernel process gets no descriptor.
//
// All that the kernel process says is foreign data. Threads: one for each directory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "computers/network/stream.h"
#include "host/local_broker.h"
#include "linux/sandbox/live_computer.h"
#include "policy/budget.h"
#include "policy/policy.h"
#include "sandbox/report.h"

namespace membrane::computers {

class DirectoryBroker {
 public:
  // Starts no thread. `budget` pays for bytes; it is borrowed. Errors: kNotFound for a directory that is not there.
  static Result<std::unique_ptr<DirectoryBroker>> create(const std::vector<policy::FsGrant>& grants,
                                                         policy::Budget& budget);
  ~DirectoryBroker();  // as end()
  DirectoryBroker(const DirectoryBroker&) = delete;
  DirectoryBroker& operator=(const DirectoryBroker&) = delete;

  // For LiveSpec::directories, until begin().
  [[nodiscard]] std::vector<linux::MountedDirectory> mounts() const;
  void begin();
  void end();
  // Adds the bounds that requests came to, to limits_reached. Until end().
  void tell(sandbox::Report& report) const;

 private:
  class Served;
  DirectoryBroker(std::unique_ptr<Stop> stop, policy::Budget& budget);
  const std::unique_ptr<Stop> stop_;
  policy::Budget& budget_;
  std::vector<std::unique_ptr<Served>> all_;
};

}  // namespace membrane::computers

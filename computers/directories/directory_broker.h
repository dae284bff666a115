// Serves directories of this machine to a Linux sandbox (linux/granted/): the files of the broker
// (host/files/) decide and perform each request of its kernel process. They open paths beneath the directory
// and enforce the grant's bounds. The kernel process gets no descriptor.
//
// Everything that the kernel process sends is foreign data. Threads: one for each directory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "computers/network/stream.h"
#include "host/world/local_broker.h"
#include "linux/sandbox/live_computer.h"
#include "policy/budget.h"
#include "policy/policy.h"
#include "sandbox/report/report.h"

namespace membrane::computers {

class DirectoryBroker {
 public:
  // Starts no thread. `budget` pays for bytes; it is borrowed. Errors: kNotFound for a missing directory.
  static Result<std::unique_ptr<DirectoryBroker>> create(const std::vector<policy::FsGrant>& grants,
                                                         policy::Budget& budget);
  ~DirectoryBroker();  // as end()
  DirectoryBroker(const DirectoryBroker&) = delete;
  DirectoryBroker& operator=(const DirectoryBroker&) = delete;

  // For LiveSpec::directories, until begin().
  [[nodiscard]] std::vector<linux::MountedDirectory> mounts() const;
  void begin();
  void end();
  // Adds the limits that requests reached to limits_reached. Until end().
  void tell(sandbox::Report& report) const;
  // The directories used since the last call: one host call line for each that was read, and for each that
  // was written.
  void report_uses(sandbox::Report& report);

 private:
  class Served;
  DirectoryBroker(std::unique_ptr<Stop> stop, policy::Budget& budget);
  const std::unique_ptr<Stop> stop_;
  policy::Budget& budget_;
  std::vector<std::unique_ptr<Served>> all_;
};

}  // namespace membrane::computers

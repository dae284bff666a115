// The service's audit log: who created, ran, changed and ended what, and what was refused to them. A hash chain (base/audit_chain.h) in an
// append-only file. It contains no code, output, contents of files, token or secret.
//
// A record is in the file when add() returns; it survives a power cut after the next sync(), or at once on
// request.
//
// Threads: any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/audit_chain.h"
#include "service/actor.h"
#include "service/durable_files.h"
#include "service/state.h"

namespace membrane::service {

inline constexpr const char* kAuditFile = "audit.log";

// A list as the value of a field: "a, b".
std::string listed(const std::vector<std::string>& words);

class Audit {
 public:
  using Fields = std::map<std::string, std::string>;

  // Continues the file. A last line that a power cut left incomplete is cut off, which is recorded. `disk` is
  // borrowed. Errors: kInvalidInput when the service did not write the file's end; those of Disk.
  static Result<std::unique_ptr<Audit>> open(Disk& disk, std::string path = kAuditFile);

  // Longer values are cut.
  Status add(std::string_view event, const Fields& fields, Hold hold = Hold::kCrash);
  // With its tenant, and who asked for it by which request.
  Status add(std::string_view event, const Actor& actor, Fields fields, Hold hold = Hold::kCrash);
  Status sync();

 private:
  Audit(Disk& disk, std::string path) : disk_(disk), path_(std::move(path)) {}
  Status go_on();
  Status cut_off(uint64_t size_bytes);

  Disk& disk_;
  const std::string path_;
  std::mutex mutex_;  // guards what follows, and the file
  AuditChain chain_;
  uint64_t size_bytes_ = 0;  // of complete records
  bool is_synced_ = true;
};

}  // namespace membrane::service

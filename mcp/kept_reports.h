// The latest reports of a backend's runs, as JSON, up to a number and a size for each tenant; a tenant's
// latest report is always kept.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "mcp/backend.h"

namespace membrane::mcp {

struct KeptReportsOptions {
  size_t most = 64;                     // of a tenant
  size_t most_bytes = 64u << 20;        // of a tenant
  size_t most_bytes_of_all = SIZE_MAX;  // the tenant with the oldest last report is evicted
};

class KeptReports {
 public:
  explicit KeptReports(KeptReportsOptions options) : options_(options) {}

  // The caller chooses `info.id`, which must be new. A receipt that is larger than the limit for a tenant's
  // reports is not kept.
  void add(const std::string& tenant, ReportInfo info, std::string json, ReceiptTexts receipt = {});
  // The receipt of a report's run. Errors: kNotFound.
  [[nodiscard]] Result<ReceiptTexts> receipt(const std::string& tenant, const std::string& id) const;
  // Latest first.
  [[nodiscard]] std::vector<ReportInfo> list(const std::string& tenant) const;
  // Errors: kNotFound.
  [[nodiscard]] Result<std::string> find(const std::string& tenant, const std::string& id) const;

 private:
  struct Kept {
    ReportInfo info;
    std::string json;
    ReceiptTexts receipt = {};

    [[nodiscard]] size_t bytes() const {
      return json.size() + receipt.text.size() + receipt.private_text.size();
    }
  };
  struct Shelf {
    std::deque<Kept> reports;  // the oldest first
    size_t bytes = 0;
    uint64_t last_added = 0;
  };

  void drop_oldest(Shelf& shelf);

  const KeptReportsOptions options_;
  mutable std::mutex mutex_;                           // over what follows
  std::map<std::string, Shelf, std::less<>> shelves_;  // by tenant
  uint64_t added_ = 0;
  size_t bytes_ = 0;  // of all
};

}  // namespace membrane::mcp

#include "mcp/kept_reports.h"

#include <algorithm>
#include <utility>

namespace membrane::mcp {

void KeptReports::drop_oldest(Shelf& shelf) {
  const size_t bytes = shelf.reports.front().bytes();
  shelf.bytes -= bytes;
  bytes_ -= bytes;
  shelf.reports.pop_front();
}

void KeptReports::add(const std::string& tenant, ReportInfo info, std::string json, ReceiptTexts receipt) {
  if (receipt.text.size() + receipt.private_text.size() > options_.most_bytes) receipt = {};
  Kept kept{std::move(info), std::move(json), std::move(receipt)};
  const std::lock_guard lock(mutex_);
  Shelf& shelf = shelves_[tenant];
  shelf.last_added = ++added_;
  shelf.bytes += kept.bytes();
  bytes_ += kept.bytes();
  shelf.reports.push_back(std::move(kept));
  while (shelf.reports.size() > 1 &&
         (shelf.reports.size() > options_.most || shelf.bytes > options_.most_bytes))
    drop_oldest(shelf);
  while (bytes_ > options_.most_bytes_of_all && shelves_.size() > 1) {
    const auto last_added = [](const auto& each) { return each.second.last_added; };
    const auto idlest = std::ranges::min_element(shelves_, {}, last_added);
    bytes_ -= idlest->second.bytes;
    shelves_.erase(idlest);
  }
}

Result<ReceiptTexts> KeptReports::receipt(const std::string& tenant, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  if (const auto shelf = shelves_.find(tenant); shelf != shelves_.end())
    for (const Kept& kept : shelf->second.reports)
      if (kept.info.id == id && !kept.receipt.text.empty()) return kept.receipt;
  return fail(
      ErrorCode::kNotFound, "there is no receipt of the report " + id,
      "Only programs that were run with seal have receipts, which are kept as long as their reports.");
}

std::vector<ReportInfo> KeptReports::list(const std::string& tenant) const {
  const std::lock_guard lock(mutex_);
  std::vector<ReportInfo> all;
  const auto shelf = shelves_.find(tenant);
  if (shelf == shelves_.end()) return all;
  for (const Kept& kept : shelf->second.reports) all.push_back(kept.info);
  std::ranges::reverse(all);
  return all;
}

Result<std::string> KeptReports::find(const std::string& tenant, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  if (const auto shelf = shelves_.find(tenant); shelf != shelves_.end())
    for (const Kept& kept : shelf->second.reports)
      if (kept.info.id == id) return kept.json;
  return fail(ErrorCode::kNotFound, "there is no report " + id,
              "The latest " + std::to_string(options_.most) + " are kept; list_reports names them.");
}

}  // namespace membrane::mcp

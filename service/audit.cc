#include "service/audit.h"

#include "base/json.h"
#include "base/utf8.h"
#include "service/times.h"

namespace membrane::service {
namespace {

// A path of a request can be long, and a policy can have many grants: a line must be no longer than
// kMostAuditLineBytes, also when every character of several values is escaped.
constexpr size_t kMostValueBytes = 2'000;

std::string bounded(const std::string& value) {
  std::string text = utf8_repair(value);
  if (text.size() <= kMostValueBytes) return text;
  text.resize(utf8_cut(text, kMostValueBytes));
  return text + "…";
}

}  // namespace

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

Result<std::unique_ptr<Audit>> Audit::open(Disk& disk, std::string path) {
  std::unique_ptr<Audit> audit(new Audit(disk, std::move(path)));
  MEMBRANE_TRY(audit->go_on());
  return audit;
}

Status Audit::go_on() {
  const auto size = disk_.size(path_);
  if (!size && size.error().code != ErrorCode::kNotFound) return std::unexpected(size.error());
  if (size && *size > 0) {
    MEMBRANE_ASSIGN(const std::string tail, disk_.read_end(path_, 2 * kMostAuditLineBytes));
    const size_t end = tail.rfind('\n');
    if (end == std::string::npos && tail.size() >= kMostAuditLineBytes)
      return fail(ErrorCode::kInvalidInput, path_ + " is not an audit log of the service", "Move it away.");
    const uint64_t torn = tail.size() - (end == std::string::npos ? 0 : end + 1);
    if (end != std::string::npos) {
      const size_t before = end == 0 ? std::string::npos : tail.rfind('\n', end - 1);
      const size_t begin = before == std::string::npos ? 0 : before + 1;
      if (const Status taken = chain_.begin_after(std::string_view(tail).substr(begin, end - begin)); !taken)
        return fail(ErrorCode::kInvalidInput,
                    path_ + " ends in bytes that the service did not write: " + taken.error().message,
                    "Move it away; membrane audit verify shows how much of it is intact.");
    }
    size_bytes_ = *size - torn;
    if (torn > 0) {
      MEMBRANE_TRY(cut_off(size_bytes_));
      MEMBRANE_TRY(add("audit.cut", {{"bytes", std::to_string(torn)}}, Hold::kPowerCut));
    }
  }
  MEMBRANE_TRY(add("service.started", {{"version", MEMBRANE_VERSION}}, Hold::kPowerCut));
  return disk_.sync_directory("");
}

Status Audit::cut_off(uint64_t size_bytes) {
  MEMBRANE_TRY(disk_.truncate(path_, size_bytes));
  return disk_.sync_file(path_);
}

Status Audit::add(std::string_view event, const Fields& fields, Hold hold) {
  nlohmann::ordered_json record = {{"time", iso_time(system_now_ms())}, {"event", event}};
  for (const auto& [name, value] : fields) record[name] = bounded(value);
  const std::lock_guard lock(mutex_);
  const std::string line = chain_.line_of(std::move(record));
  if (const Status written = disk_.append(path_, line); !written) {
    static_cast<void>(cut_off(size_bytes_));  // a partial entry; else the next start does
    return written;
  }
  MEMBRANE_TRY(chain_.follow(std::string_view(line).substr(0, line.size() - 1)));
  size_bytes_ += line.size();
  is_synced_ = false;
  if (hold == Hold::kCrash) return {};
  is_synced_ = true;
  return disk_.sync_file(path_);
}

Status Audit::add(std::string_view event, const Actor& actor, Fields fields, Hold hold) {
  fields["tenant"] = actor.tenant;
  if (!actor.by.empty()) fields["by"] = actor.by;
  if (!actor.request_id.empty()) fields["request_id"] = actor.request_id;
  return add(event, fields, hold);
}

Status Audit::sync() {
  const std::lock_guard lock(mutex_);
  if (is_synced_) return {};
  is_synced_ = true;
  return disk_.sync_file(path_);
}

}  // namespace membrane::service

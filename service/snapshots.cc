#include "service/snapshots.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "lang/language_names.h"
#include "service/kept_record.h"

namespace membrane::service {
namespace {

std::unexpected<ApiError> no_snapshot(std::string_view id) {
  return refuse(ApiCode::kNotFound, "there is no snapshot " + std::string(id),
                "GET /v1/snapshots lists them.");
}

std::unexpected<ApiError> no_template(std::string_view name) {
  return refuse(ApiCode::kNotFound, "there is no template " + std::string(name),
                "GET /v1/templates lists them.");
}

}  // namespace

Answer<SnapshotInfo> Snapshots::add(SnapshotInfo info, KeptGuest guest) {
  const std::lock_guard lock(mutex_);
  const auto count = std::ranges::count_if(
      snapshots_, [&](const auto& each) { return each.second.info.tenant == info.tenant; });
  if (static_cast<size_t>(count) >= most_of_tenant_) {
    drop_images(images_, guest);
    return refuse(ApiCode::kQuotaExceeded,
                  "the token has " + count_of(most_of_tenant_, "snapshot") + ", which is its quota",
                  "Remove those that are not needed.");
  }
  info.size_bytes = guest.size_bytes();
  Snapshot snapshot{info, std::move(guest)};
  if (const auto written = write(snapshot); !written) {
    drop_images(images_, snapshot.guest);
    return std::unexpected(written.error());
  }
  snapshots_.emplace(info.id, std::move(snapshot));
  return info;
}

Answer<void> Snapshots::write(const Snapshot& snapshot) {
  if (state_ == nullptr) return {};
  const SnapshotInfo& info = snapshot.info;
  const Status put = state_->put(SnapshotRow{.id = info.id,
                                             .tenant = info.tenant,
                                             .template_name = info.template_name,
                                             .sandbox = info.sandbox,
                                             .policy_json = policy::to_json(snapshot.guest.spec.policy),
                                             .created_at_ms = info.created_at_ms,
                                             .kept = record_of(snapshot.guest),
                                             .images = hashes_of(snapshot.guest)});
  if (!put) return std::unexpected(disk_error(put.error()));
  return {};
}

Result<std::vector<std::string>> Snapshots::load() {
  MEMBRANE_ASSIGN(const std::vector<SnapshotRow> rows, state_->snapshots());
  MEMBRANE_ASSIGN(const std::vector<TemplateRow> templates, state_->templates());
  std::vector<std::string> problems;
  const std::lock_guard lock(mutex_);
  for (const SnapshotRow& row : rows) {
    auto guest = read_guest_record(row.kept);
    if (!guest) {
      problems.push_back("the snapshot " + row.id + ": " + guest.error().message);
      continue;
    }
    for (const KeptImage& image : guest->images)
      if (const Status kept = images_.keep(image.hash); !kept)
        problems.push_back("the snapshot " + row.id + ": " + kept.error().message);
    const SnapshotInfo info{.id = row.id,
                            .tenant = row.tenant,
                            .sandbox = row.sandbox,
                            .template_name = row.template_name,
                            .name = {},
                            .created_at_ms = row.created_at_ms,
                            .size_bytes = guest->size_bytes()};
    snapshots_.emplace(row.id, Snapshot{info, *std::move(guest)});
  }
  for (const TemplateRow& row : templates) {
    if (const auto checked = check_name(row.name); !checked) {
      problems.push_back("the snapshot " + row.snapshot + " has lost its name: " + checked.error().message);
      MEMBRANE_TRY(state_->remove_template(row.tenant, row.name));
    } else if (const auto found = snapshots_.find(row.snapshot); found != snapshots_.end()) {
      found->second.info.name = row.name;
    }
  }
  return problems;
}

std::vector<SnapshotInfo> Snapshots::list(std::string_view tenant) const {
  const std::lock_guard lock(mutex_);
  std::vector<SnapshotInfo> all;
  for (const auto& [id, snapshot] : snapshots_)
    if (snapshot.info.tenant == tenant) all.push_back(snapshot.info);
  std::ranges::sort(all, {}, [](const SnapshotInfo& info) { return std::pair(info.created_at_ms, info.id); });
  return all;
}

Answer<Snapshot> Snapshots::find(std::string_view tenant, std::string_view id) const {
  const std::lock_guard lock(mutex_);
  const auto found = snapshots_.find(id);
  if (found == snapshots_.end() || found->second.info.tenant != tenant) return no_snapshot(id);
  return found->second;
}

Answer<Snapshot> Snapshots::find_template(std::string_view tenant, std::string_view name) const {
  const auto found = [&]() -> std::optional<Snapshot> {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, snapshot] : snapshots_)
      if (snapshot.info.tenant == tenant && !name.empty() && snapshot.info.name == name) return snapshot;
    return std::nullopt;
  }();
  if (!found || is_built_in(name)) return no_template(name);
  return *found;
}

bool Snapshots::is_built_in(std::string_view name) const {
  if (kind_of_template(name) == Kind::kLinux) return true;  // also where there is no image yet
  const std::string language = lang::language_named(name);
  const auto is_it = [&](const auto& each) { return lang::language_named(each.name) == language; };
  return std::ranges::any_of(lang::known_languages(), is_it) ||
         std::ranges::any_of(guests_.templates(), is_it);
}

Answer<void> Snapshots::check_name(std::string_view name) const {
  constexpr size_t kMost = 64;  // as in openapi.json
  const auto is_of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  if (name.empty() || name.size() > kMost || !std::ranges::all_of(name, is_of_name))
    return refuse(ApiCode::kInvalidValue, "\"name\" is not one that a template can have",
                  "Use 1 to " + std::to_string(kMost) + " lower-case letters, digits, and - _ . only.");
  if (is_built_in(name))
    return refuse(ApiCode::kConflict, "the template " + std::string(name) + " is built in",
                  "Choose another name.");
  return {};
}

Answer<SnapshotInfo> Snapshots::promote(std::string_view tenant, std::string_view id, std::string_view name) {
  if (const auto checked = check_name(name); !checked) return std::unexpected(checked.error());
  const std::lock_guard lock(mutex_);
  const auto found = snapshots_.find(id);
  if (found == snapshots_.end() || found->second.info.tenant != tenant) return no_snapshot(id);
  for (const auto& [other, snapshot] : snapshots_)
    if (other != id && snapshot.info.tenant == tenant && snapshot.info.name == name)
      return refuse(
          ApiCode::kConflict,
          "the template " + std::string(name) + " is there already, of the snapshot " + other,
          "Take another name, or remove that template: DELETE /v1/templates/" + std::string(name) + ".");
  SnapshotInfo& info = found->second.info;
  if (state_ != nullptr && info.name != name) {
    Status written = state_->put(TemplateRow{info.tenant, std::string(name), info.id, info.created_at_ms});
    if (written && !info.name.empty()) written = state_->remove_template(info.tenant, info.name);
    if (!written) return std::unexpected(disk_error(written.error()));
  }
  info.name = name;
  return info;
}

Answer<void> Snapshots::remove_template(std::string_view tenant, std::string_view name) {
  const std::lock_guard lock(mutex_);
  for (auto& [id, snapshot] : snapshots_) {
    SnapshotInfo& info = snapshot.info;
    if (info.tenant != tenant || name.empty() || info.name != name) continue;
    if (state_ != nullptr)
      if (const Status gone = state_->remove_template(info.tenant, info.name); !gone)
        return std::unexpected(disk_error(gone.error()));
    info.name.clear();
    return {};
  }
  return no_template(name);
}

Answer<void> Snapshots::remove(std::string_view tenant, std::string_view id) {
  const std::lock_guard lock(mutex_);
  const auto found = snapshots_.find(id);
  if (found == snapshots_.end() || found->second.info.tenant != tenant) return no_snapshot(id);
  const SnapshotInfo& info = found->second.info;
  if (!info.name.empty())
    return refuse(ApiCode::kConflict, "the template " + info.name + " is made of the snapshot " + info.id,
                  "Remove the template first: DELETE /v1/templates/" + info.name + ".");
  if (state_ != nullptr)
    if (const Status gone = state_->remove_snapshot(info.id); !gone)
      return std::unexpected(disk_error(gone.error()));
  drop_images(images_, found->second.guest);
  snapshots_.erase(found);
  return {};
}

}  // namespace membrane::service

#include "service/receipts.h"

#include <algorithm>
#include <span>

#include "base/text.h"
#include "service/kept_guest.h"
#include "service/times.h"

namespace membrane::service {
namespace {

using sandbox::KeyRing;

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

ApiError no_receipt(const std::string& exec) {
  return {ApiCode::kNotFound, "there is no receipt of the exec " + exec,
          "Only an exec that ran and was to be sealed (\"seal\") has one; it is removed with its sandbox."};
}

}  // namespace

Result<std::unique_ptr<Receipts>> Receipts::open(DurableFiles& files, State& state, Images& images,
                                                 ReceiptBounds bounds) {
  std::unique_ptr<Receipts> receipts(new Receipts(files, state, images, bounds));
  auto text = files.read(std::string(kReceiptKeysFile), KeyRing::kMaxBytes);
  if (!text && text.error().code != ErrorCode::kNotFound) return std::unexpected(std::move(text).error());
  if (text) {
    MEMBRANE_ASSIGN(receipts->keys_, KeyRing::parse(*text, kReceiptKeysFile));
  }
  MEMBRANE_TRY(state.settle_receipts());
  MEMBRANE_ASSIGN(std::vector<ReceiptRow> rows, state.receipts());
  for (ReceiptRow& row : rows) {
    // A receipt whose bytes are gone is still listed, and reports that on access.
    static_cast<void>(images.keep(row.image));
    static_cast<void>(images.keep(row.private_image));
    receipts->add(row.tenant, row.sandbox,
                  {{.exec = row.exec,
                    .digest = row.digest,
                    .context = row.context,
                    .turn = row.turn,
                    .size_bytes = row.size_bytes,
                    .private_size_bytes = row.private_size_bytes,
                    .made_at_ms = row.made_at_ms},
                   row.image,
                   row.private_image});
  }
  return receipts;
}

// -- keys ---------------------------------------------------------------------------------------------------------

Answer<void> Receipts::write_keys(const KeyRing& keys) {
  if (const Status written = files_.write(std::string(kReceiptKeysFile), keys.to_json(true)); !written)
    return std::unexpected(disk_error(written.error()));
  keys_ = keys;
  return {};
}

Answer<void> Receipts::need_keys() {
  if (keys_) return {};
  KeyRing keys;
  if (const Status made = keys.rotate(sandbox::receipt_time_now()); !made)
    return std::unexpected(api_error(made.error()));
  return write_keys(keys);
}

Answer<sandbox::ReceiptKey> Receipts::signing_key() {
  const std::lock_guard lock(keys_mutex_);
  if (const auto there = need_keys(); !there) return std::unexpected(there.error());
  if (const sandbox::ReceiptKey* const key = keys_->signing()) return *key;
  return refuse(ApiCode::kConflict, "no key of the service signs receipts: the last one was revoked",
                "The service's owner can create another: POST /v1/keys/rotate.");
}

Answer<std::string> Receipts::public_keys() {
  const std::lock_guard lock(keys_mutex_);
  if (const auto there = need_keys(); !there) return std::unexpected(there.error());
  return keys_->to_json(false);
}

Answer<std::string> Receipts::rotate() {
  const std::lock_guard lock(keys_mutex_);
  KeyRing keys = keys_.value_or(KeyRing());
  if (const Status made = keys.rotate(sandbox::receipt_time_now()); !made)
    return std::unexpected(api_error(made.error()));
  if (const auto written = write_keys(keys); !written) return std::unexpected(written.error());
  return keys_->signing()->id;
}

Answer<void> Receipts::revoke(std::string_view id) {
  const std::lock_guard lock(keys_mutex_);
  KeyRing keys = keys_.value_or(KeyRing());
  if (const Status revoked = keys.revoke(id, sandbox::receipt_time_now()); !revoked)
    return std::unexpected(api_error(revoked.error()));
  return write_keys(keys);
}

// -- receipts -----------------------------------------------------------------------------------------------------

void Receipts::add(const std::string& tenant, const std::string& sandbox, Kept kept) {
  const uint64_t bytes = kept.info.size_bytes + kept.info.private_size_bytes;
  const std::lock_guard lock(mutex_);
  OfSandbox& of = of_sandbox_[sandbox];
  of.tenant = tenant;
  of.bytes += bytes;
  of.receipts.push_back(std::move(kept));
  bytes_of_tenant_[tenant] += bytes;
}

Answer<void> Receipts::has_room(const std::string& tenant, const std::string& sandbox) {
  const std::lock_guard lock(mutex_);
  const auto bytes = bytes_of_tenant_.find(tenant);
  if (bytes != bytes_of_tenant_.end() && bytes->second >= bounds_.most_bytes_of_tenant)
    return refuse(
        ApiCode::kQuotaExceeded,
        "the receipts of the token's sandboxes have " + count_of(bytes->second, "byte") +
            ", and the limit is " + std::to_string(bounds_.most_bytes_of_tenant),
        "Download them, and end sandboxes that are not needed: their receipts are removed with them.");
  const auto of = of_sandbox_.find(sandbox);
  if (of == of_sandbox_.end() || of->second.receipts.size() < bounds_.most_of_sandbox) return {};
  return refuse(ApiCode::kQuotaExceeded,
                "the sandbox has " + count_of(of->second.receipts.size(), "receipt") + ", which is the limit",
                "Download them, and continue in a new sandbox.");
}

Answer<void> Receipts::keep(const std::string& tenant, const std::string& sandbox, ReceiptInfo info,
                            const sandbox::SealedReceipt& sealed) {
  const auto image = images_.put(bytes_of(sealed.text));
  if (!image) return std::unexpected(disk_error(image.error()));
  const auto private_image = images_.put(bytes_of(sealed.private_text));
  if (!private_image) {
    images_.drop(*image);
    return std::unexpected(disk_error(private_image.error()));
  }
  info.digest = sealed.digest;
  info.size_bytes = sealed.text.size();
  info.private_size_bytes = sealed.private_text.size();
  info.made_at_ms = system_now_ms();
  const Status put = state_.put(ReceiptRow{.sandbox = sandbox,
                                           .exec = info.exec,
                                           .tenant = tenant,
                                           .digest = info.digest,
                                           .image = *image,
                                           .private_image = *private_image,
                                           .size_bytes = info.size_bytes,
                                           .private_size_bytes = info.private_size_bytes,
                                           .context = info.context,
                                           .turn = info.turn,
                                           .made_at_ms = info.made_at_ms});
  if (!put) {
    images_.drop(*image);
    images_.drop(*private_image);
    return std::unexpected(disk_error(put.error()));
  }
  add(tenant, sandbox, {std::move(info), *image, *private_image});
  return {};
}

Answer<std::vector<ReceiptInfo>> Receipts::list(const std::string& tenant, const std::string& sandbox) {
  const std::lock_guard lock(mutex_);
  const auto found = of_sandbox_.find(sandbox);
  if (found == of_sandbox_.end() || found->second.tenant != tenant)
    return refuse(ApiCode::kNotFound, "there is no sandbox " + sandbox + ", and no receipt of one",
                  "Receipts are removed with their sandbox, when it is killed or its time to live is over.");
  std::vector<ReceiptInfo> all;
  for (const Kept& kept : found->second.receipts) all.push_back(kept.info);
  return all;
}

Answer<std::string> Receipts::text(const std::string& tenant, const std::string& sandbox,
                                   const std::string& exec, bool is_private) {
  std::string hash;
  {
    const std::lock_guard lock(mutex_);
    const auto of = of_sandbox_.find(sandbox);
    if (of == of_sandbox_.end() || of->second.tenant != tenant) return std::unexpected(no_receipt(exec));
    const auto& all = of->second.receipts;
    const auto found = std::ranges::find(all, exec, [](const Kept& kept) { return kept.info.exec; });
    if (found == all.end()) return std::unexpected(no_receipt(exec));
    hash = is_private ? found->private_image : found->image;
  }
  const auto bytes = images_.get(hash);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return std::unexpected(no_receipt(exec));
  if (!bytes) return std::unexpected(disk_error(bytes.error()));
  return std::string(bytes->begin(), bytes->end());
}

void Receipts::forget(const std::string& sandbox) {
  OfSandbox gone;
  {
    const std::lock_guard lock(mutex_);
    const auto found = of_sandbox_.find(sandbox);
    if (found == of_sandbox_.end()) return;
    gone = std::move(found->second);
    of_sandbox_.erase(found);
    uint64_t& bytes = bytes_of_tenant_[gone.tenant];
    bytes -= gone.bytes;
    if (bytes == 0) bytes_of_tenant_.erase(gone.tenant);
  }
  static_cast<void>(state_.remove_receipts(sandbox));  // otherwise the next start removes them
  for (const Kept& kept : gone.receipts) {
    images_.drop(kept.image);
    images_.drop(kept.private_image);
  }
}

}  // namespace membrane::service

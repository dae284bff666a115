#include "service/images.h"

#include "base/sha256.h"

namespace membrane::service {
namespace {

class ImagesInMemory final : public Images {
 public:
  Result<std::string> put(std::span<const uint8_t> bytes) override {
    MEMBRANE_ASSIGN(std::string hash,
                    sha256_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    const std::lock_guard lock(mutex_);
    Image& image = images_[hash];
    if (image.references++ == 0) image.bytes.assign(bytes.begin(), bytes.end());
    return hash;
  }
  Result<std::vector<uint8_t>> get(std::string_view hash) override {
    const std::lock_guard lock(mutex_);
    const auto found = images_.find(hash);
    if (found == images_.end()) return none(hash);
    return found->second.bytes;
  }
  Status keep(std::string_view hash) override {
    const std::lock_guard lock(mutex_);
    const auto found = images_.find(hash);
    if (found == images_.end()) return none(hash);
    ++found->second.references;
    return {};
  }
  void drop(std::string_view hash) override {
    const std::lock_guard lock(mutex_);
    const auto found = images_.find(hash);
    if (found != images_.end() && --found->second.references == 0) images_.erase(found);
  }
  void sweep() override {}  // what is not referred to is already removed

 private:
  struct Image {
    std::vector<uint8_t> bytes;
    size_t references = 0;
  };
  static std::unexpected<Error> none(std::string_view hash) {
    return fail(ErrorCode::kNotFound, "there is no image " + std::string(hash));
  }

  std::mutex mutex_;
  std::map<std::string, Image, std::less<>> images_;
};

}  // namespace

std::unique_ptr<Images> images_in_memory() { return std::make_unique<ImagesInMemory>(); }

}  // namespace membrane::service

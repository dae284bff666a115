#include "linux/files/devices.h"

#include <fcntl.h>

#include <algorithm>
#include <array>

#include "linux/files/regular_file.h"

namespace membrane::linux {
namespace {

// null, zero, full, random.
class MemoryDevice final : public File {
 public:
  MemoryDevice(uint64_t number, NodeRef node, std::shared_ptr<Entropy> entropy)
      : number_(number), node_(std::move(node)), entropy_(std::move(entropy)) {}
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return description_of(location, *node_); }

  Try<size_t> read(Caller&, Buffer& to) override {
    if (number_ == kNullDevice) return 0;
    std::array<std::byte, 4096> piece = {};
    size_t done = 0;
    while (to.size() > 0 && done < kMostBytesOfCall) {
      const size_t wanted = std::min({to.size(), piece.size(), kMostBytesOfCall - done});
      if (is_random() && !entropy_->fill(std::span(piece).first(wanted))) return err(EIO);
      auto put = to.put(std::span(piece).first(wanted));
      if (!put && done == 0) return put;
      if (!put) break;
      done += *put;
      if (*put < wanted) break;
    }
    return done;
  }
  Try<size_t> write(Caller&, Buffer& from) override {
    if (number_ == kFullDevice) return err(ENOSPC);
    return std::min(from.size(), kMostBytesOfCall);
  }
  Try<size_t> read_at(Caller& caller, Buffer& to, uint64_t) override { return read(caller, to); }
  Try<size_t> write_at(Caller& caller, Buffer& from, uint64_t) override { return write(caller, from); }
  Try<uint64_t> seek(int64_t, int) override { return 0; }
  bool can_poll() override { return is_random(); }
  Try<Backing> mapping(uint64_t, uint64_t, bool is_shared, int) override {
    // Shared zeros would need a memory file of their own; programs map anonymous memory for that.
    if (number_ != kZeroDevice || is_shared) return err(ENODEV);
    return Backing{};
  }

 private:
  [[nodiscard]] bool is_random() const { return number_ == kRandomDevice || number_ == kUrandomDevice; }
  const uint64_t number_;
  const NodeRef node_;
  const std::shared_ptr<Entropy> entropy_;
};

}  // namespace

Devices::Devices(const std::shared_ptr<Entropy>& entropy) {
  for (const uint64_t number : {kNullDevice, kZeroDevice, kFullDevice, kRandomDevice, kUrandomDevice}) {
    add(number, [number, entropy](Caller&, const NodeRef& node, int) -> Try<FileRef> {
      return std::make_shared<MemoryDevice>(number, node, entropy);
    });
  }
  add(kTtyDevice, [](Caller& caller, const NodeRef&, int flags) -> Try<FileRef> {
    const FileRef terminal = caller.terminal();
    if (terminal == nullptr) return err(ENXIO);
    return terminal->reopen(caller, flags);
  });
}

Try<FileRef> Devices::open(uint64_t number, Caller& caller, const NodeRef& node, int flags) const {
  const auto found = openers_.find(number);
  if (found == openers_.end()) return err(ENXIO);
  return found->second(caller, node, flags);
}

}  // namespace membrane::linux

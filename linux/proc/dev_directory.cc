// The root of /dev.
#include <dirent.h>

#include "linux/files/anonymous_node.h"
#include "linux/proc/directories.h"
#include "linux/proc/made_node.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kDevDevice = 0x19;

class DeviceNode final : public Node {
 public:
  DeviceNode(std::shared_ptr<const Devices> devices, uint64_t number, uint32_t permissions)
      : devices_(std::move(devices)) {
    attributes_.device = kDevDevice;
    attributes_.number = next_node_number();
    attributes_.mode = S_IFCHR | permissions;
    attributes_.special = number;
    attributes_.accessed = attributes_.modified = attributes_.changed = attributes_.created = real_time();
  }
  [[nodiscard]] Attributes attributes() override { return attributes_; }
  Done change(const AttributeChange& change) override {
    if (change.mode) attributes_.mode = S_IFCHR | (*change.mode & 07777);
    if (change.uid) attributes_.uid = *change.uid;
    if (change.gid) attributes_.gid = *change.gid;
    if (change.accessed) attributes_.accessed = *change.accessed;
    if (change.modified) attributes_.modified = *change.modified;
    attributes_.changed = real_time();
    return {};
  }
  Try<std::shared_ptr<File>> open(Caller& caller, int flags) override {
    return devices_->open(attributes_.special, caller, shared_from_this(), flags);
  }

 private:
  const std::shared_ptr<const Devices> devices_;
  Attributes attributes_;
};

struct DeviceRow {
  const char* name;
  uint64_t number;
};
constexpr std::array<DeviceRow, 7> kDevices = {{{"null", kNullDevice},
                                                {"zero", kZeroDevice},
                                                {"full", kFullDevice},
                                                {"random", kRandomDevice},
                                                {"urandom", kUrandomDevice},
                                                {"tty", kTtyDevice},
                                                {"ptmx", kPtmxDevice}}};

struct LinkRow {
  const char* name;
  const char* target;
};
constexpr std::array<LinkRow, 4> kLinks = {{{"fd", "/proc/self/fd"},
                                            {"stdin", "/proc/self/fd/0"},
                                            {"stdout", "/proc/self/fd/1"},
                                            {"stderr", "/proc/self/fd/2"}}};

MadeDirectory::Child existing(uint32_t type, NodeRef node) {
  return {type, 0, [node = std::move(node)](const MadeWith&, const NodeRef&) { return node; }};
}

}  // namespace

NodeRef make_dev_directory(const std::shared_ptr<const Devices>& devices,
                           const std::shared_ptr<Terminals>& terminals, const NodeRef& shared_memory) {
  MadeDirectory::Children children;
  for (const DeviceRow& row : kDevices)
    children[row.name] = existing(S_IFCHR, std::make_shared<DeviceNode>(devices, row.number, 0666));
  for (const LinkRow& row : kLinks)
    children[row.name] = made_link([target = row.target]() -> Try<std::string> { return target; });
  children["pts"] = existing(S_IFDIR, terminals->directory());
  if (shared_memory != nullptr) children["shm"] = existing(S_IFDIR, shared_memory);
  return std::make_shared<MadeDirectory>(
      MadeWith{.device = kDevDevice, .number = 1, .permissions = 0755}, nullptr,
      std::make_shared<const MadeDirectory::Children>(std::move(children)));
}

}  // namespace membrane::linux

#include "linux/files/anonymous_node.h"

#include <atomic>

namespace membrane::linux {

namespace {
std::atomic<uint64_t> last_number = 1000;
}

uint64_t next_node_number() { return ++last_number; }

void take_node_numbers(uint64_t last) {
  uint64_t now = last_number.load();
  while (now < last && !last_number.compare_exchange_weak(now, last)) continue;
}

timespec real_time() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return now;
}

AnonymousNode::AnonymousNode(AnonymousDevice device, uint32_t mode, const Credentials& owner) {
  attributes_.device = static_cast<uint64_t>(device);
  attributes_.number = next_node_number();
  attributes_.mode = mode;
  attributes_.uid = owner.fsuid;
  attributes_.gid = owner.fsgid;
  attributes_.accessed = attributes_.modified = attributes_.changed = attributes_.created = real_time();
}

Done AnonymousNode::change(const AttributeChange& change) {
  if (change.mode) attributes_.mode = (attributes_.mode & S_IFMT) | (*change.mode & 07777);
  if (change.uid) attributes_.uid = *change.uid;
  if (change.gid) attributes_.gid = *change.gid;
  if (change.accessed) attributes_.accessed = *change.accessed;
  if (change.modified) attributes_.modified = *change.modified;
  attributes_.changed = real_time();
  return {};
}

Try<std::shared_ptr<File>> AnonymousNode::open(Caller&, int flags) {
  if (!opener_) return err(ENXIO);
  return opener_(shared_from_this(), flags);
}

std::shared_ptr<AnonymousNode> make_anonymous_node(AnonymousDevice device, uint32_t mode,
                                                   const Credentials& owner) {
  return std::make_shared<AnonymousNode>(device, mode, owner);
}

std::string anonymous_name(std::string_view kind, Node& node) {
  return std::string(kind) + ":[" + std::to_string(node.attributes().number) + "]";
}

}  // namespace membrane::linux

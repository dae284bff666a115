#include "linux/files/socket_end.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "linux/files/socket_file.h"

namespace membrane::linux {
namespace {

constexpr uint16_t kFirstFreePort = 32768, kLastFreePort = 60999;
constexpr uint32_t kMostAbstractNames = 0xfffff;

bool is_internet(const SocketEnd& end) { return end.domain == AF_INET || end.domain == AF_INET6; }

// Whether packets to `to` are for an end that is bound to `bound`.
bool receives(const SocketEnd& end, const InetAddress& bound, const InetAddress& to) {
  if (bound.port != to.port) return false;
  if (bound.ip == to.ip) return true;
  if (!bound.is_any()) return false;
  if (end.domain == AF_INET) return to.is_v4();
  return !bound.is_v4() ? (!to.is_v4() || !end.only_v6) : to.is_v4();
}

}  // namespace

Sender sender_of(const Caller& caller) {
  const Credentials& who = caller.credentials();
  return {.process = caller.process_id(), .uid = who.euid, .gid = who.egid};
}

// -- ends

SocketEnd::~SocketEnd() { clear(); }

Done SocketEnd::add(Packet packet) {
  const size_t charge = packet.charge();
  if (charge > SocketSpace::kMostQueuedBytes - space->queued_bytes_) return err(ENOBUFS);
  charged += charge;
  space->queued_bytes_ += charge;
  packets.push_back(std::move(packet));
  return {};
}

Done SocketEnd::append(Packet packet) {
  constexpr size_t kMostJoined = 65536;
  if (packets.empty() || !packet.files.files.empty()) return add(std::move(packet));
  Packet& last = packets.back();
  const bool is_alike = last.files.files.empty() && last.sender == packet.sender;
  if (!is_alike || last.bytes.size() + packet.bytes.size() > kMostJoined) return add(std::move(packet));
  const size_t charge = packet.size();
  if (charge > SocketSpace::kMostQueuedBytes - space->queued_bytes_) return err(ENOBUFS);
  last.bytes.insert(last.bytes.end(), packet.bytes.begin(), packet.bytes.end());
  charged += charge;
  space->queued_bytes_ += charge;
  return {};
}

void SocketEnd::drop(size_t bytes, bool whole) {
  Packet& front = packets.front();
  const size_t before = front.charge();
  front.begin += std::min(bytes, front.size());
  const bool goes = whole || front.size() == 0;
  const size_t freed = goes ? before : before - front.charge();
  charged -= freed;
  space->queued_bytes_ -= freed;
  if (goes) packets.pop_front();
}

void SocketEnd::clear() {
  while (!packets.empty()) drop(0, true);
}

// -- files on their way

Try<FilesInFlight> SocketSpace::count(std::vector<FileRef> files) {
  const size_t number = files.size();
  if (number == 0) return FilesInFlight();
  if (number > kMostFilesInFlight - *files_in_flight_ || sent_sockets_.size() > 4 * kMostFilesInFlight)
    collect();
  if (number > kMostFilesInFlight - *files_in_flight_) return err(ETOOMANYREFS);
  *files_in_flight_ += number;
  for (const FileRef& file : files)
    if (dynamic_cast<const SocketFile*>(file.get()) != nullptr) sent_sockets_.push_back(file);
  std::shared_ptr<void> count(nullptr, [all = files_in_flight_, number](void*) { *all -= number; });
  return FilesInFlight{.files = std::move(files), .count = std::move(count)};
}

namespace {

// The files in the packets that wait at a socket and at the connections that wait for its accept().
void add_files_at(const SocketEnd& end, std::vector<File*>& files) {
  for (const Packet& packet : end.packets)
    for (const FileRef& file : packet.files.files) files.push_back(file.get());
  for (const auto& connection : end.pending)
    for (const Packet& packet : connection->packets)
      for (const FileRef& file : packet.files.files) files.push_back(file.get());
}

}  // namespace

// A socket is garbage when only packets of garbage sockets refer to it. So a socket with any other reference
// is not garbage, nor is what waits there, and so on; the rest is.
void SocketSpace::collect() {
  has_garbage_ = false;
  std::map<File*, FileRef> sockets;
  for (const auto& sent : std::exchange(sent_sockets_, {}))
    if (FileRef socket = sent.lock()) sockets.try_emplace(socket.get(), std::move(socket));
  std::map<File*, long> kept_by_sent;  // by packets at sockets that were sent
  std::map<File*, std::vector<File*>> holds;
  for (const auto& [file, socket] : sockets) {
    add_files_at(static_cast<SocketFile&>(*file).end(), holds[file]);
    for (File* const held : holds[file]) ++kept_by_sent[held];
  }
  std::vector<File*> left;
  for (const auto& [file, socket] : sockets)
    if (socket.use_count() - 1 > kept_by_sent[file]) left.push_back(file);
  std::set<File*> alive(left.begin(), left.end());
  while (!left.empty()) {
    File* const file = left.back();
    left.pop_back();
    for (File* const held : holds[file])
      if (sockets.contains(held) && alive.insert(held).second) left.push_back(held);
  }
  for (const auto& [file, socket] : sockets) {
    if (alive.contains(file)) {
      sent_sockets_.push_back(socket);
      continue;
    }
    SocketEnd& end = static_cast<SocketFile&>(*file).end();
    for (const auto& connection : end.pending) connection->clear();
    end.clear();
  }
}

// -- names of AF_UNIX

Done SocketSpace::bind_abstract(const std::string& name, const End& end) {
  auto& bound = abstract_[name];
  if (!bound.expired()) return err(EADDRINUSE);
  bound = end;
  return {};
}

Done SocketSpace::bind_node(const NodeRef& node, const End& end) {
  auto& bound = nodes_[node.get()];
  if (!bound.second.expired()) return err(EADDRINUSE);
  bound = {node, end};
  return {};
}

std::string SocketSpace::free_abstract_name() {
  char name[8] = {};
  for (uint32_t tried = 0; tried < kMostAbstractNames; ++tried) {
    last_name_ = (last_name_ + 1) & kMostAbstractNames;
    std::snprintf(name, sizeof name, "%05x", last_name_);
    if (!abstract_.contains(name)) break;
  }
  return name;
}

SocketSpace::End SocketSpace::find_abstract(const std::string& name) const {
  const auto found = abstract_.find(name);
  return found == abstract_.end() ? nullptr : found->second.lock();
}

SocketSpace::End SocketSpace::find_node(const Node& node) const {
  const auto found = nodes_.find(&node);
  return found == nodes_.end() ? nullptr : found->second.second.lock();
}

// -- ports

bool SocketSpace::is_free(const InetAddress& address, const SocketEnd& end) const {
  const auto [first, last] = ports_.equal_range(address.port);
  for (auto at = first; at != last; ++at) {
    const End other = at->second.lock();
    if (other == nullptr || other.get() == &end || other->type != end.type) continue;
    if (!receives(*other, other->local, address) && !receives(end, address, other->local)) continue;
    if (end.reuses_port && other->reuses_port && end.owner.uid == other->owner.uid) continue;
    const bool listens = other->is_listening || end.is_listening;
    if (end.reuses_address && other->reuses_address && !listens) continue;
    return false;
  }
  return true;
}

Done SocketSpace::bind_inet(const InetAddress& address, const End& end) {
  InetAddress wanted = address;
  if (wanted.port != 0) {
    if (!is_free(wanted, *end)) return err(EADDRINUSE);
  } else {
    const int count = kLastFreePort - kFirstFreePort + 1;
    int tried = 0;
    do {
      if (tried++ == count) return err(EADDRINUSE);
      last_port_ = last_port_ >= kLastFreePort ? kFirstFreePort : static_cast<uint16_t>(last_port_ + 1);
      wanted.port = last_port_;
    } while (ports_.contains(wanted.port));
  }
  end->local = wanted;
  ports_.emplace(wanted.port, end);
  return {};
}

bool SocketSpace::is_taken_for_listening(const SocketEnd& end) const {
  const auto [first, last] = ports_.equal_range(end.local.port);
  return std::any_of(first, last, [&](const auto& each) {
    const End other = each.second.lock();
    if (other == nullptr || other.get() == &end || !other->is_listening || other->type != end.type)
      return false;
    if (end.reuses_port && other->reuses_port) return false;
    return receives(*other, other->local, end.local) || receives(end, end.local, other->local);
  });
}

SocketSpace::End SocketSpace::find_inet(const InetAddress& address, int type) const {
  const auto [first, last] = ports_.equal_range(address.port);
  End best;
  for (auto at = first; at != last; ++at) {
    End end = at->second.lock();
    if (end == nullptr || end->type != type || !receives(*end, end->local, address)) continue;
    if (type == SOCK_STREAM && !end->is_listening) continue;
    if (best == nullptr || !end->local.is_any()) best = std::move(end);
  }
  return best;
}

void SocketSpace::unbind(const SocketEnd& end) {
  // An accepted end has its listener's name but cannot be found by it.
  const auto is_own = [&](const std::weak_ptr<SocketEnd>& bound) {
    return bound.expired() || bound.lock().get() == &end;
  };
  if (!is_internet(end)) {
    const auto node = nodes_.find(end.name.node.get());
    if (node != nodes_.end() && is_own(node->second.second)) nodes_.erase(node);
    const auto name = unix_name_of(end.name);
    if (!name || name->is_path || name->is_unnamed) return;
    const auto found = abstract_.find(name->abstract);
    if (found != abstract_.end() && is_own(found->second)) abstract_.erase(found);
    return;
  }
  const auto [first, last] = ports_.equal_range(end.local.port);
  const auto found =
      std::find_if(first, last, [&](const auto& each) { return each.second.lock().get() == &end; });
  if (found != last) ports_.erase(found);
}

// -- AF_NETLINK

Done SocketSpace::bind_netlink(uint32_t port, const End& end) {
  auto& bound = netlink_ports_[port];
  if (!bound.expired()) return err(EADDRINUSE);
  bound = end;
  return {};
}

uint32_t SocketSpace::free_netlink_port(uint32_t wish) {
  if (wish != 0 && !netlink_ports_.contains(wish)) return wish;
  do --last_netlink_port_;
  while (last_netlink_port_ == 0 || netlink_ports_.contains(last_netlink_port_));
  return last_netlink_port_;
}

void SocketSpace::unbind_netlink(uint32_t port, const SocketEnd& end) {
  const auto found = netlink_ports_.find(port);
  if (found == netlink_ports_.end()) return;
  const End bound = found->second.lock();
  if (bound == nullptr || bound.get() == &end) netlink_ports_.erase(found);
}

}  // namespace membrane::linux

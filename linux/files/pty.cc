#include "linux/files/pty.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <charconv>

#include "linux/files/anonymous_node.h"

namespace membrane::linux {
namespace {

constexpr uint64_t kDevptsDevice = 0x18;
constexpr uint32_t kTtyGroup = 5;

}  // namespace

// -- devpts

class PtsNode final : public Node {
 public:
  PtsNode(const std::shared_ptr<Terminal>& terminal, const Credentials& owner) : terminal_(terminal) {
    attributes_.device = kDevptsDevice;
    attributes_.number = static_cast<uint64_t>(terminal->number) + 3;
    attributes_.mode = S_IFCHR | 0620;
    attributes_.uid = owner.fsuid;
    attributes_.gid = kTtyGroup;
    attributes_.special = device_number(136 + static_cast<uint32_t>(terminal->number) / 256,
                                        static_cast<uint32_t>(terminal->number) % 256);
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
    const auto terminal = terminal_.lock();
    if (terminal == nullptr) return err(EIO);
    MEMBRANE_ASSIGN(FileRef slave, open_slave(terminal, flags));
    if ((flags & O_NOCTTY) == 0) terminal->take_if_free(caller);
    return slave;
  }

 private:
  const std::weak_ptr<Terminal> terminal_;
  Attributes attributes_;
};

class PtsDirectory final : public Node {
 public:
  explicit PtsDirectory(const std::shared_ptr<Terminals>& all) : all_(all), made_(real_time()) {}
  [[nodiscard]] Attributes attributes() override {
    return {.device = kDevptsDevice,
            .number = 1,
            .mode = S_IFDIR | 0755,
            .links = 2,
            .accessed = made_,
            .modified = made_,
            .changed = made_,
            .created = made_};
  }
  Try<NodeRef> look_up(std::string_view name) override {
    const auto all = all_.lock();
    if (all == nullptr) return err(ENOENT);
    if (name == "ptmx") {
      if (ptmx_ == nullptr) ptmx_ = std::make_shared<PtmxNode>(all_, made_);
      return ptmx_;
    }
    int number = 0;
    const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (failure != std::errc() || end != name.data() + name.size() || std::to_string(number) != name)
      return err(ENOENT);
    const auto terminal = all->find(number);
    if (terminal == nullptr) return err(ENOENT);
    return terminal->node;
  }
  Try<NodeRef> create(std::string_view, const NewNode&) override { return err(EACCES); }
  Done unlink(std::string_view) override { return err(EPERM); }
  Done list(int64_t position, const std::function<bool(const DirectoryEntry&)>& add) override {
    const auto all = all_.lock();
    if (all == nullptr || position < 0) return {};
    if (position == 0 && !add({.name = "ptmx", .number = 2, .type = DT_CHR, .next = 1})) return {};
    if (position > Terminals::kMost) return {};
    const int from = position == 0 ? 0 : static_cast<int>(position - 1);
    for (auto at = all->terminals_.lower_bound(from); at != all->terminals_.end(); ++at) {
      const std::string name = std::to_string(at->first);
      if (!add({.name = name,
                .number = static_cast<uint64_t>(at->first) + 3,
                .type = DT_CHR,
                .next = at->first + 2}))
        break;
    }
    return {};
  }

 private:
  class PtmxNode final : public Node {
   public:
    PtmxNode(std::weak_ptr<Terminals> all, timespec made) : all_(std::move(all)), made_(made) {}
    [[nodiscard]] Attributes attributes() override {
      return {.device = kDevptsDevice,
              .number = 2,
              .mode = S_IFCHR | 0666,
              .special = kPtmxDevice,
              .accessed = made_,
              .modified = made_,
              .changed = made_,
              .created = made_};
    }
    Try<std::shared_ptr<File>> open(Caller& caller, int flags) override {
      const auto all = all_.lock();
      if (all == nullptr) return err(EIO);
      return all->open_master(caller, shared_from_this(), flags);
    }

   private:
    const std::weak_ptr<Terminals> all_;
    const timespec made_;
  };
  const std::weak_ptr<Terminals> all_;
  const timespec made_;
  NodeRef ptmx_;
};

NodeRef Terminals::directory() {
  if (directory_ == nullptr) directory_ = std::make_shared<PtsDirectory>(shared_from_this());
  return directory_;
}

std::shared_ptr<Terminal> Terminals::find(int number) const {
  const auto found = terminals_.find(number);
  return found == terminals_.end() ? nullptr : found->second.lock();
}

Try<FileRef> Terminals::open_master(Caller& caller, const NodeRef& node, int flags) {
  MEMBRANE_ASSIGN(auto master, make_master(caller.credentials(), node));
  master->flags = flags & (O_ACCMODE | O_NONBLOCK);
  return master;
}

Try<std::shared_ptr<PtyMaster>> Terminals::make_master(const Credentials& owner, const NodeRef& node) {
  int number = 0;
  for (const auto& [used, terminal] : terminals_) {
    if (used != number) break;
    ++number;
  }
  if (number >= kMost) return err(ENOSPC);
  return std::make_shared<PtyMaster>(shared_from_this(), make_terminal(number, owner), node);
}

std::shared_ptr<Terminal> Terminals::make_terminal(int number, const Credentials& owner) {
  auto terminal = std::make_shared<Terminal>(jobs_, number);
  terminal->node = std::make_shared<PtsNode>(terminal, owner);
  terminals_[number] = terminal;
  return terminal;
}

void Terminals::add_to(Devices& devices) {
  devices.add(kPtmxDevice, [all = shared_from_this()](Caller& caller, const NodeRef& node, int flags) {
    return all->open_master(caller, node, flags);
  });
}

// -- the master

PtyMaster::PtyMaster(std::shared_ptr<Terminals> all, std::shared_ptr<Terminal> terminal, NodeRef node)
    : all_(std::move(all)), terminal_(std::move(terminal)), node_(std::move(node)) {}

PtyMaster::~PtyMaster() {
  terminal_->has_master = false;
  all_->terminals_.erase(terminal_->number);
  terminal_->hang_up();
}

Try<size_t> PtyMaster::read(Caller&, Buffer& to) {
  if (to.size() == 0) return 0;
  if (has_status()) {
    MEMBRANE_TRY(to.put(std::as_bytes(std::span(&terminal_->packet_status, 1))));
    terminal_->packet_status = 0;
    return 1;
  }
  if (terminal_->line.output.is_empty()) {
    if (terminal_->had_slaves && terminal_->slaves == 0) return err(EIO);
    return err(EAGAIN);
  }
  size_t before = 0;
  if (terminal_->has_packets) {
    constexpr std::array kData = {std::byte{TIOCPKT_DATA}};
    MEMBRANE_ASSIGN(before, to.put(kData));
  }
  // What cannot be put stays, as where there is room for the first byte only.
  const auto count = to.size() == 0 ? Try<size_t>(0) : terminal_->line.output.give_to(to, to.size());
  if (!count && before == 0) return count;
  terminal_->changed.wake();
  return before + count.value_or(0);
}

Try<size_t> PtyMaster::write(Caller&, Buffer& from) {
  std::array<std::byte, 1024> piece;
  size_t done = 0;
  while (from.size() > 0 && terminal_->line.has_input_room()) {
    const size_t wanted = std::min(from.size(), piece.size());
    auto taken = from.take(std::span(piece).first(wanted));
    if (!taken && done == 0) return taken;
    if (!taken) break;
    const size_t received = terminal_->line.receive(std::span(piece).first(*taken));
    done += received;
    if (received < wanted) break;
  }
  if (done == 0 && from.size() > 0) return err(EAGAIN);
  terminal_->changed.wake();
  return done;
}

short PtyMaster::ready() {
  int events = has_status() ? POLLPRI | POLLIN | POLLRDNORM : 0;
  if (!terminal_->line.output.is_empty()) events |= POLLIN | POLLRDNORM;
  if (terminal_->line.has_input_room()) events |= POLLOUT | POLLWRNORM;
  if (terminal_->had_slaves && terminal_->slaves == 0) events |= POLLHUP;
  return static_cast<short>(events);
}

Try<int64_t> PtyMaster::ioctl(Caller& caller, uint64_t request, uint64_t argument) {
  switch (request) {
    case TIOCGPTN: MEMBRANE_TRY(caller.put(argument, terminal_->number)); return 0;
    case TIOCSPTLCK: {
      MEMBRANE_ASSIGN(const int locks, caller.get<int>(argument));
      terminal_->is_locked = locks != 0;
      return 0;
    }
    case TIOCGPTLCK: MEMBRANE_TRY(caller.put(argument, terminal_->is_locked ? 1 : 0)); return 0;
    case TIOCPKT: {
      MEMBRANE_ASSIGN(const int wants_packets, caller.get<int>(argument));
      if (wants_packets != 0 && !terminal_->has_packets) terminal_->packet_status = 0;
      terminal_->has_packets = wants_packets != 0;
      return 0;
    }
    case TIOCGPKT: MEMBRANE_TRY(caller.put(argument, terminal_->has_packets ? 1 : 0)); return 0;
    default: return terminal_->ioctl(caller, request, argument, true);
  }
}

// -- slaves

Try<FileRef> open_slave(const std::shared_ptr<Terminal>& terminal, int flags) {
  if (terminal->is_locked || !terminal->has_master) return err(EIO);
  auto slave = std::make_shared<PtySlave>(terminal);
  slave->flags = flags & (O_ACCMODE | O_NONBLOCK);
  return slave;
}

PtySlave::PtySlave(std::shared_ptr<Terminal> terminal)
    : terminal_(std::move(terminal)), hang_ups_(terminal_->hang_ups) {
  ++terminal_->slaves;
  terminal_->had_slaves = true;
}

PtySlave::~PtySlave() {
  if (--terminal_->slaves == 0) terminal_->changed.wake();
}

std::string PtySlave::description() const { return "/dev/pts/" + std::to_string(terminal_->number); }

Try<size_t> PtySlave::read(Caller& caller, Buffer& to) {
  if (is_hung_up()) return 0;
  MEMBRANE_TRY(terminal_->check_job(caller, SIGTTIN));
  MEMBRANE_ASSIGN(const size_t count, terminal_->line.read(to, (flags & O_NONBLOCK) != 0));
  terminal_->changed.wake();
  return count;
}

Try<size_t> PtySlave::write(Caller& caller, Buffer& from) {
  if (is_hung_up()) return err(EIO);
  if ((terminal_->line.modes().local & TOSTOP) != 0) MEMBRANE_TRY(terminal_->check_job(caller, SIGTTOU));
  MEMBRANE_ASSIGN(const size_t count, terminal_->line.write(from));
  terminal_->changed.wake();
  return count;
}

short PtySlave::ready() {
  if (is_hung_up()) return POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLERR | POLLHUP;
  int events = 0;
  if (terminal_->line.is_readable()) events |= POLLIN | POLLRDNORM;
  if (terminal_->line.has_output_room()) events |= POLLOUT | POLLWRNORM;
  return static_cast<short>(events);
}

Try<int64_t> PtySlave::ioctl(Caller& caller, uint64_t request, uint64_t argument) {
  if (is_hung_up()) return err(request == TIOCSPGRP ? ENOTTY : EIO);
  return terminal_->ioctl(caller, request, argument, false);
}

}  // namespace membrane::linux

// Pseudo terminals: a master for the program that plays keyboard and screen, slaves for the programs that run
// in the terminal, and their directory (devpts). Threads: the kernel's thread.
#pragma once

#include <map>
#include <memory>

#include "linux/files/devices.h"
#include "linux/files/terminal.h"

namespace membrane::linux {

class PtyMaster;

// All terminals of a kernel.
class Terminals : public std::enable_shared_from_this<Terminals> {
 public:
  static constexpr int kMost = 4096;
  explicit Terminals(Jobs& jobs) : jobs_(jobs) {}

  // Opens /dev/ptmx, whose node is `node`: a new terminal. Errors: ENOSPC.
  Try<FileRef> open_master(Caller& caller, const NodeRef& node, int flags);
  // A master that no guest holds; its terminal is number N of /dev/pts like any other. Errors: ENOSPC.
  Try<std::shared_ptr<PtyMaster>> make_master(const Credentials& owner, const NodeRef& node = nullptr);
  // A terminal of that number, which must be unused, without a master.
  std::shared_ptr<Terminal> make_terminal(int number, const Credentials& owner);
  // To be mounted at /dev/pts: "ptmx" and the number of each terminal.
  [[nodiscard]] NodeRef directory();
  // Makes `devices` open /dev/ptmx.
  void add_to(Devices& devices);
  [[nodiscard]] std::shared_ptr<Terminal> find(int number) const;

 private:
  friend class FileState;  // linux/kept/file_state.h
  friend class PtyMaster;
  friend class PtsDirectory;
  Jobs& jobs_;
  std::map<int, std::weak_ptr<Terminal>> terminals_;
  NodeRef directory_;
};

class PtyMaster final : public File {
 public:
  PtyMaster(std::shared_ptr<Terminals> all, std::shared_ptr<Terminal> terminal, NodeRef node);
  ~PtyMaster() override;
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return "/dev/ptmx"; }
  // Errors of read: EIO once no slave is open.
  Try<size_t> read(Caller& caller, Buffer& to) override;
  Try<size_t> write(Caller& caller, Buffer& from) override;
  short ready() override;
  void join(Waiter& waiter) override { waiter.join(terminal_->changed); }
  bool can_poll() override { return true; }
  Try<int64_t> ioctl(Caller& caller, uint64_t request, uint64_t argument) override;
  [[nodiscard]] const std::shared_ptr<Terminal>& terminal() const { return terminal_; }

 private:
  [[nodiscard]] bool has_status() const { return terminal_->has_packets && terminal_->packet_status != 0; }
  const std::shared_ptr<Terminals> all_;
  const std::shared_ptr<Terminal> terminal_;
  const NodeRef node_;
};

class PtySlave final : public File {
 public:
  explicit PtySlave(std::shared_ptr<Terminal> terminal);
  ~PtySlave() override;
  [[nodiscard]] const NodeRef& node() const override { return terminal_->node; }
  [[nodiscard]] std::string description() const override;
  Try<size_t> read(Caller& caller, Buffer& to) override;
  Try<size_t> write(Caller& caller, Buffer& from) override;
  short ready() override;
  void join(Waiter& waiter) override { waiter.join(terminal_->changed); }
  bool can_poll() override { return true; }
  Try<int64_t> ioctl(Caller& caller, uint64_t request, uint64_t argument) override;
  [[nodiscard]] const std::shared_ptr<Terminal>& terminal() const { return terminal_; }

 private:
  friend class FileState;  // linux/kept/file_state.h
  [[nodiscard]] bool is_hung_up() const { return hang_ups_ != terminal_->hang_ups; }
  const std::shared_ptr<Terminal> terminal_;
  const uint64_t hang_ups_;
};

// A slave, without regard to the caller's session. Errors: EIO when the terminal is locked or has no master.
Try<FileRef> open_slave(const std::shared_ptr<Terminal>& terminal, int flags);

}  // namespace membrane::linux

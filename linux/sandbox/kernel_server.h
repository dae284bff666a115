// The part of the kernel process that obeys its owner: takes orders in the kernel's thread, between two
// system calls of guests, and answers them. Threads: the kernel's thread.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "linux/kept/kernel_state.h"
#include "linux/kernel/kernel.h"
#include "linux/network/outside_network.h"
#include "linux/sandbox/orders.h"
#include "linux/sandbox/outside_files.h"
#include "linux/sandbox/protocol.h"
#include "linux/sandbox/served_command.h"

namespace membrane::linux {

class KernelServer {
 public:
  // `network`: null for none. `image_name`: the image under its files, recorded when the sandbox is kept.
  KernelServer(FrameSocket& socket, Orders& orders, Kernel& kernel, OutsideNetwork* network,
               std::string image_name);
  KernelServer(const KernelServer&) = delete;
  KernelServer& operator=(const KernelServer&) = delete;

  // No guest runs before the owner orders it.
  void stand_still() { static_cast<void>(freeze(true)); }
  // The commands of a restored sandbox, to which their owner may attach().
  void adopt(std::vector<KeptCommand> commands);
  // Runs until the owner is gone or breaks the protocol.
  void run();
  // From any thread: there are orders, or a terminal or connection has something to move.
  void wake();

 private:
  static constexpr int kMostAtOnce = 64;  // orders handled between two checks of the guests

  void look();
  void obey(Frame& frame);
  bool obey_for_command(const Frame& frame);
  // The answer to an order of another kind.
  Result<std::string> obey_and_answer(Frame& frame);
  Result<std::string> obey_for_file(const Frame& frame);
  Result<std::string> change_file(const Frame& frame);
  Result<std::string> start(const Frame& frame);
  Result<std::string> attach(const Frame& frame);
  Status keep(const Frame& frame);
  Status keep_all(int file);
  Status freeze(bool stands_still);
  [[nodiscard]] Result<std::string> changes() const;
  [[nodiscard]] Status save_image(const Frame& frame) const;
  [[nodiscard]] Status clamp_times(const Frame& frame) const;
  [[nodiscard]] ComputerUsage usage() const;
  void take_end(Process& process);
  void answer(uint64_t number, const Result<std::string>& with);
  void stop() { is_over_ = true; }

  FrameSocket& socket_;
  Orders& orders_;
  Kernel& kernel_;
  OutsideNetwork* const network_;
  const std::string image_name_;
  OutsideFiles files_;
  std::atomic<bool> has_news_ = false;
  bool is_over_ = false;
  bool is_frozen_by_owner_ = false;
  std::map<uint64_t, std::unique_ptr<ServedCommand>> commands_;  // by their order's number
};

}  // namespace membrane::linux

// The network that a sandbox's owner grants: bridges the connections of its programs to the owner.
//
//   a guest's socket ── its two ends in the kernel ── Bridge ── a socket of the host ──► the owner (computers/network/)
//
// The kernel process makes no connections. It tells the owner which host is meant and passes one end of a stream; the
// owner decides what to do with it. DNS is answered here, from the owner's list of hosts (reachable.h).
//
// The buffers are those of the two sockets: a guest that does not read stops the owner's writes, and vice
// versa.
//
// Threads: the kernel's thread, plus a thread of its own that waits for the host's sockets.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "linux/files/network.h"
#include "linux/network/messages.h"
#include "linux/network/reachable.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::linux {

class OutsideNetwork final : public Network {
 public:
  static constexpr size_t kMostConnections = 128;

  // Starts its thread; call this before the kernel process restricts its system calls. That thread calls
  // `wake`, which must make the kernel call after_wake(). Errors: kUnavailable.
  static Result<std::unique_ptr<OutsideNetwork>> create(std::function<void()> wake);
  ~OutsideNetwork() override;  // runs after the kernel's sockets end
  OutsideNetwork(const OutsideNetwork&) = delete;
  OutsideNetwork& operator=(const OutsideNetwork&) = delete;

  // The sandbox's own name resolves to its loopback.
  void set_own_name(std::string name) { own_name_ = std::move(name); }
  // Takes over the socket, on which the owner has already sent its greeting; it may send more. Errors:
  // kInvalidInput.
  Status attach(HostFile socket);
  void after_wake();
  [[nodiscard]] bool has_connections() const { return !connections_.empty(); }

  Done reaches(const InetAddress& to, int type) override;
  Done connect(const std::shared_ptr<SocketEnd>& own, const std::shared_ptr<SocketEnd>& theirs,
               const InetAddress& to) override;
  std::optional<std::string> answer(const InetAddress& to, std::span<const std::byte> packet) override;
  [[nodiscard]] std::string_view certificate() const override { return certificate_; }

 private:
  class Connection;
  class Bridge;
  class DnsStream;
  explicit OutsideNetwork(std::function<void()> wake);
  void wait_for_sockets();
  Status read_greeting();
  bool listen_to_owner(int how);
  Done add_bridge(const std::shared_ptr<SocketEnd>& own, const std::shared_ptr<SocketEnd>& theirs,
                  std::string_view host, uint16_t port);
  bool tell(NetworkEvent event, std::string_view host, uint16_t port, int descriptor = -1);
  void tell_refusal(NetworkEvent event, std::string_view host, uint16_t port);
  void remove_ended();
  std::optional<std::string> answer_query(std::span<const std::byte> query);

  const std::function<void()> wake_;
  HostFile owner_, poller_, end_;  // end_: an eventfd that ends the thread
  Reachable reachable_;
  std::string own_name_, certificate_;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
  uint64_t last_number_ = 0;
  uint32_t unreported_ = 0;      // refusals not yet reported to the owner
  std::mutex mutex_;             // of what follows
  std::vector<uint64_t> ready_;  // connections with ready sockets
  std::jthread thread_;
};

}  // namespace membrane::linux

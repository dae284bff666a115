// The other end of a Linux sandbox's network (linux/network/): the owner's side, which decides and dials.
//
//   kernel process ──a connection, and which host it is for──► Gateway ─┬─ HTTP: each request is read, decided and sent by the egress
//                                                                       │  (host/egress/), with the grant's headers and secrets
//                                                                       └─ TLS: the name that the program says must be the host's
//                                                                           ├─ requests of the host are granted singly: they are
//                                                                           │  decrypted (authority.h), and go the way of HTTP
//                                                                           └─ else the host must be granted for CONNECT; bytes go
//                                                                              to and fro
//
// If a host has grants of both kinds, its requests are decrypted and held to them: a tunnel would allow more
// than the narrower grants.
//
// Hosts are resolved here, and every address is checked as in the egress. Plain HTTP to a port that is
// granted as https is encrypted here. Refusals: HTTP gets 403 with cause and fix, TLS an alert
// (access_denied). Each request and each connection is a line of the report, like the other kind's host
// calls.
//
// Everything that the kernel process sends is foreign data.
//
// Threads: one of its own, and one for each connection. Any thread may call its members.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "computers/network/authority.h"
#include "computers/network/connection_bound.h"
#include "computers/network/known_names.h"
#include "computers/network/stream.h"
#include "host/egress/http_egress.h"
#include "linux/network/messages.h"
#include "policy/budget.h"
#include "policy/policy.h"
#include "policy/url.h"
#include "sandbox/report/report.h"

namespace membrane::computers {

struct Origin;  // http_connection.h

struct GatewayOptions {
  std::vector<policy::HttpGrant> grants;
  policy::Limits limits;               // host_calls, bytes_in, bytes_out, memory_bytes
  host::Secrets secrets = nullptr;     // null: the environment's
  host::Resolver* resolver = nullptr;  // borrowed; null: the system's
  // Shared with other sandboxes of the same task; null: its own, from `limits`.
  std::shared_ptr<policy::Budget> budget = nullptr;
  // The limit on connections, shared with other sandboxes of the same owner; null: kMostConnections only.
  std::shared_ptr<ConnectionBound> connections = nullptr;
  bool only_looks = false;  // nothing is dialled: the owner only needs was_asked()
  // The authority that its programs trust; null: one of its own.
  std::shared_ptr<Authority> authority = nullptr;
  // The kernel process will be forked from this one, and must not have the authority's keys in its memory:
  // call greet() after that.
  bool greets_later = false;
};

class Gateway {
 public:
  static constexpr size_t kMostConnections = 128;
  static constexpr uint64_t kMostBodyBytes = 64u << 20;  // request bodies, of all connections together
  static constexpr uint64_t kMostAnswerBytes =
      256u << 20;  // held bytes, of all connections together, at most limits.memory

  // Starts no thread. Errors: kInvalidArgument for an invalid grant, kUnsupported without libcurl,
  // kUnavailable.
  static Result<std::unique_ptr<Gateway>> create(GatewayOptions options);
  ~Gateway();  // as end()
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // Tells the kernel process which hosts are reachable and what to trust, before it gets the socket. Errors:
  // kUnavailable.
  Status greet() { return send_hosts(); }
  // The kernel process's end of the socket (LiveSpec::network), until begin().
  [[nodiscard]] int socket() const { return theirs_.number(); }
  void begin();
  // Ends all connections once all messages of the kernel process were read; take_account() is complete then.
  void end();
  // Whether a program has asked for anything beyond its sandbox: a connection, or the address of a name that
  // is not granted. After end(), this covers everything that it did before.
  [[nodiscard]] bool was_asked() const { return was_asked_; }
  // The kernel process is gone; no more messages come.
  [[nodiscard]] bool is_over() const { return is_over_; }

  // Replaces the grants, also for existing connections: what they are doing is cut off, unless it is still
  // granted to the same addresses. Errors: those of create().
  Status set_grants(std::vector<policy::HttpGrant> grants, host::Secrets secrets);
  // Pays for everything that its connections do, and for the sandbox's directories.
  [[nodiscard]] policy::Budget& budget() { return budget_; }
  // Resets the limits: a command begins.
  void renew(const policy::Limits& limits);
  struct Account {
    std::vector<sandbox::HostCallRecord> calls;
    uint64_t dropped = 0;  // more of them
  };
  Account take_account();
  void tell(sandbox::Report& report);  // adds the account as host calls

 private:
  struct Rules;
  // The operation of a connection in progress; without a method, none.
  struct Use {
    std::string method;
    policy::Url url;
  };
  struct Connection {
    Connection(std::unique_ptr<Stop> of, std::shared_ptr<const void> taken)
        : stop(std::move(of)), place(std::move(taken)) {}
    const std::unique_ptr<Stop> stop;
    std::shared_ptr<const void> place;  // slot in the bound; released by the thread
    Use use;                            // under mutex_
    std::jthread thread;
    std::atomic<bool> is_over = false;
  };

  Gateway(GatewayOptions options, std::unique_ptr<Stop> stop);
  Status send_hosts();
  Status send_hosts_again_if_due();
  void listen();
  void take(const linux::NetworkMessage& message, linux::HostFile socket);
  void refused(const linux::NetworkMessage& message, const std::string& host);
  void refused_for_many(const linux::NetworkMessage& message, const std::string& host);
  void serve(Connection& connection, const std::string& host, uint16_t port, linux::HostFile socket);
  void serve_tls(Connection& connection, const std::string& host, uint16_t port, SocketStream& stream);
  void serve_plain(Connection& connection, const std::string& host, uint16_t port, SocketStream& stream);
  // Serves HTTP over the stream until it ends.
  void serve_requests(Connection& connection, const Origin& origin, Stream& stream);
  host::HostResult<void> pay_call();
  // A TLS connection whose program has named its server.
  struct Heard;
  host::HostResult<Heard> hear(const std::string& host, uint16_t port, SocketStream& stream,
                               sandbox::HostCallRecord& record);
  host::HostResult<void> open_tunnel(Connection& connection, const Heard& heard, uint16_t port,
                                     SocketStream& stream, sandbox::HostCallRecord& record);
  host::HostResult<std::unique_ptr<Stream>> decrypt(const Heard& heard, SocketStream& stream);
  host::HostResult<host::HttpResponse> send(const Connection& connection, host::HttpEgress& egress,
                                            host::HttpRequest request,
                                            const host::HttpEgress::MayHold& may_hold);
  void note(sandbox::HostCallRecord record, const host::HostError* error);
  std::shared_ptr<const Rules> rules();
  // The rules that apply to the use, until there are others.
  std::shared_ptr<const Rules> begin_use(Connection& connection, Use use);
  void end_use(Connection& connection);
  [[nodiscard]] std::optional<host::HostError> why_cut(const Connection& connection) const;
  void remove_connections(bool all);

  host::SystemResolver system_resolver_;
  KnownNames names_;
  const std::shared_ptr<policy::Budget> shared_budget_;
  policy::Budget& budget_;
  const std::unique_ptr<Stop> stop_;
  const std::shared_ptr<ConnectionBound> connections_bound_;
  const bool only_looks_;
  std::atomic<bool> was_asked_ = false;
  const std::shared_ptr<Authority> authority_;
  std::atomic<uint64_t> body_room_ = kMostBodyBytes, answer_room_;
  linux::HostFile ours_, theirs_;
  std::atomic<bool> is_over_ = false;
  std::mutex telling_;            // guards what follows; orders messages about rules. Locked before mutex_
  std::string sent_certificate_;  // "" while no rule needs one
  std::mutex mutex_;              // of what follows
  std::shared_ptr<const Rules> rules_;
  Account account_;
  size_t account_bytes_ = 0;
  std::list<Connection> connections_;  // added and removed only by the listening thread
  std::jthread listener_;
};

}  // namespace membrane::computers

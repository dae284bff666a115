// The state of a connection. For .cc files of this floor. Threads: any.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "mcp/log.h"
#include "mcp/message.h"
#include "mcp/revision.h"
#include "mcp/server.h"

namespace membrane::mcp {

class Peer::Impl {
 public:
  // A request in progress; its destructor removes it.
  class UnderWay {
   public:
    UnderWay(std::shared_ptr<Peer> peer, Json id) : peer_(std::move(peer)), id_(std::move(id)) {}
    ~UnderWay();
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

    std::atomic<bool> cancelled = false;

   private:
    friend class Impl;
    std::shared_ptr<Peer> peer_;
    Json id_;
    bool is_listed_ = false;
  };

  // False, with the error: the id is taken, or there are already `most`.
  std::optional<ProtocolError> begin(UnderWay& call, size_t most);
  void cancel(const Json& id);
  void cancel_all();

  std::optional<Revision> agreed() const { return locked(agreed_); }
  void agree(Revision revision) { locked(agreed_, revision); }
  std::optional<LogLevel> log_level() const { return locked(log_level_); }
  void set_log_level(LogLevel level) { locked(log_level_, level); }

 private:
  template <typename T> std::optional<T> locked(const std::optional<T>& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }
  template <typename T> void locked(std::optional<T>& value, T to) {
    const std::lock_guard lock(mutex_);
    value = to;
  }

  mutable std::mutex mutex_;           // over what follows
  std::optional<Revision> agreed_;     // by the handshake
  std::optional<LogLevel> log_level_;  // by logging/setLevel
  std::list<UnderWay*> under_way_;
  bool is_over_ = false;
};

}  // namespace membrane::mcp

// The calls of host::Broker that are forwarded over the socket as they are: the arguments go there, a
// HostResult returns. A call's number is its position here.
#pragma once

#include <cstdint>

#include "host/broker.h"

namespace membrane::worker {

// clang-format off
#define MEMBRANE_BROKER_CALLS(X) \
  X(http) X(file_read) X(file_write) X(file_list) X(file_stat) X(file_remove) X(file_open) \
  X(file_read_at) X(file_write_at) X(file_resize) X(file_status) X(file_sync) X(file_close) \
  X(path_status) X(path_find_link) X(path_set_times) X(path_unlink) X(path_rename) \
  X(link_make_symbolic) X(link_make_hard) X(directory_make) X(directory_remove) X(kv_get) \
  X(kv_set) X(kv_remove) X(kv_keys) X(ai_complete) X(ai_embed) X(clock_ms) X(clock_ns) \
  X(random_bytes) X(ask)
// clang-format on

enum class BrokerCall : uint8_t {
#define X(name) name,
  MEMBRANE_BROKER_CALLS(X)
#undef X
  // Calls with forms of their own.
  http_many,
  sql_query,
};
constexpr BrokerCall wire_last(BrokerCall) { return BrokerCall::sql_query; }

}  // namespace membrane::worker

// A service of the Connect protocol: its methods by name, and the dispatch of a request to one of them.
//
// Include from .cc files only. Threads: pure; methods answer from any.
#pragma once

#include <span>
#include <string_view>

#include "service/e2b/call.h"

namespace membrane::service::e2b {

struct RpcMethod {
  std::string_view name;
  std::string_view scope;  // required of the caller
  bool is_stream;          // streams its answer; then its request is one message in a frame
  void (*handle)(const Service&, const SharedCall&, const Json& message);
};

// Dispatches the request to one of these methods, and refuses invalid ones: a wrong HTTP method, form, scope
// or message.
void handle_rpc(const Service& service, const SharedCall& call, std::span<const RpcMethod> methods);

}  // namespace membrane::service::e2b

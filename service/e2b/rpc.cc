#include "service/e2b/rpc.h"

#include <algorithm>

namespace membrane::service::e2b {
namespace {

// The only message of a call.
std::expected<Json, RpcError> read_message(const Request& request, bool is_stream) {
  std::string_view text = request.body;
  if (request.headers.find("Connect-Content-Encoding").value_or("identity") != "identity" ||
      request.headers.find("Content-Encoding").value_or("identity") != "identity")
    return std::unexpected(RpcError{RpcCode::kUnimplemented, "compressed messages are not read here"});
  if (is_stream) {
    const auto frames = read_frames(text);
    if (!frames) return std::unexpected(frames.error());
    if (frames->size() != 1)
      return std::unexpected(RpcError{RpcCode::kInvalidArgument, "the call must have one message"});
    text = frames->front();
  }
  auto message = read_object(text);
  if (!message) return std::unexpected(rpc_error(message.error()));
  return *std::move(message);
}

}  // namespace

void handle_rpc(const Service& service, const SharedCall& call, std::span<const RpcMethod> methods) {
  const Request& request = call->request;
  const std::string_view name = request.segments.size() == 2 ? std::string_view(request.segments[1]) : "";
  const auto method = std::ranges::find(methods, name, &RpcMethod::name);
  const auto refuse = [&](const RpcError& error, bool is_stream) {
    call->reply(is_stream ? stream_response(error) : rpc_response(error));
  };
  if (method == methods.end()) return refuse(rpc_error(not_here("The call " + std::string(name))), false);
  const std::string_view type = request.headers.find("Content-Type").value_or("");
  const std::string_view wanted = method->is_stream ? kStreamType : "application/json";
  if (request.method != "POST" || !type.starts_with(wanted))
    return call->refuse({ApiCode::kUnsupportedMediaType, "the call is not POST with " + std::string(wanted)});
  if (!call->caller.may(method->scope)) {
    static_cast<void>(noted(service, call, std::string(method->scope)));
    return refuse(
        {RpcCode::kPermissionDenied, "the token does not allow this; it needs " + std::string(method->scope)},
        method->is_stream);
  }
  const auto message = read_message(request, method->is_stream);
  if (!message) return refuse(message.error(), method->is_stream);
  method->handle(service, call, *message);
}

}  // namespace membrane::service::e2b

#include "mcp/request.h"

#include <algorithm>
#include <utility>

#include "base/base64.h"
#include "base/utf8.h"
#include "mcp/peer.h"

namespace membrane::mcp {
namespace {

constexpr std::string_view kVersionKey = "io.modelcontextprotocol/protocolVersion";
constexpr std::string_view kCapabilitiesKey = "io.modelcontextprotocol/clientCapabilities";
constexpr std::string_view kLogLevelKey = "io.modelcontextprotocol/logLevel";
constexpr int kBadRequest = 400;

using Terms = std::expected<RequestTerms, RefusedRequest>;

std::unexpected<RefusedRequest> refused(Code code, std::string message, int http_status = kBadRequest) {
  return std::unexpected(RefusedRequest{{code, std::move(message)}, http_status});
}

std::unexpected<RefusedRequest> unsupported(std::string_view requested) {
  ProtocolError error{Code::kUnsupportedProtocolVersion, "Unsupported protocol version"};
  OrderedJson supported = OrderedJson::array();
  for (const Revision each : stateless_revisions()) supported.push_back(name_of(each));
  constexpr size_t kMost = 64;
  error.data = {{"supported", std::move(supported)},
                {"requested", requested.substr(0, utf8_cut(requested, kMost))}};
  return std::unexpected(RefusedRequest{std::move(error), kBadRequest});
}

// The member of params that the header Mcp-Name repeats; null for methods without one.
const Json* named_by(const Message& request) {
  const auto member = [&](const char* name) -> const Json* {
    const auto found = request.params.find(name);
    return found == request.params.end() ? nullptr : &*found;
  };
  if (request.method == "tools/call" || request.method == "prompts/get") return member("name");
  if (request.method == "resources/read") return member("uri");
  return nullptr;
}

bool is_header_text(std::string_view value) {
  return std::ranges::all_of(value, [](char c) { return (c >= 0x20 && c <= 0x7e) || c == '\t'; });
}

// 2026-07-28: the headers are present and match the body. An intermediary may have acted on them.
std::optional<std::string> mismatch(const MirroredHeaders& headers, const Message& request,
                                    std::string_view version) {
  const auto differs = [](std::string_view name, const std::optional<std::string>& header,
                          std::string_view body, bool is_encoded) -> std::optional<std::string> {
    if (!header) return "Header mismatch: " + std::string(name) + " is missing";
    if (!is_header_text(*header)) return "Header mismatch: " + std::string(name) + " has invalid characters";
    const auto value = is_encoded ? decoded_header(*header) : *header;
    if (value && *value == body) return std::nullopt;
    return "Header mismatch: " + std::string(name) + " does not match the body";
  };
  if (auto wrong = differs("MCP-Protocol-Version", headers.protocol_version, version, false)) return wrong;
  if (auto wrong = differs("Mcp-Method", headers.method, request.method, false)) return wrong;
  const Json* const named = named_by(request);
  if (named == nullptr || !named->is_string()) return std::nullopt;
  return differs("Mcp-Name", headers.name, named->get_ref<const std::string&>(), true);
}

Terms stateless_terms(const Message& request, const Json& meta, const Json& version,
                      const Envelope& envelope) {
  if (!version.is_string())
    return refused(Code::kInvalidParams, std::string(kVersionKey) + " in _meta must be a string.");
  const auto& name = version.get_ref<const std::string&>();
  if (envelope.headers)
    if (auto wrong = mismatch(*envelope.headers, request, name))
      return refused(Code::kHeaderMismatch, *wrong);
  const auto revision = find_revision(name);
  if (!revision || !is_stateless(*revision)) return unsupported(name);
  const auto capabilities = meta.find(kCapabilitiesKey);
  if (capabilities == meta.end() || !capabilities->is_object())
    return refused(Code::kInvalidParams, std::string(kCapabilitiesKey) + " in _meta is missing: an object.");
  RequestTerms terms{.revision = *revision, .log_level = {}, .progress_token = {}};
  if (const auto level = meta.find(kLogLevelKey); level != meta.end()) {
    if (level->is_string()) terms.log_level = find_log_level(level->get_ref<const std::string&>());
    if (!terms.log_level)
      return refused(Code::kInvalidParams, std::string(kLogLevelKey) + " in _meta is not a log level.");
  }
  return terms;
}

// For a request that does not name its revision.
Terms legacy_terms(const Message& request, const Envelope& envelope) {
  const Peer::Impl& peer = envelope.peer->impl();
  RequestTerms terms{.revision = kLatestWithHandshake, .log_level = peer.log_level(), .progress_token = {}};
  if (request.method == "initialize") return terms;
  if (envelope.headers && envelope.headers->protocol_version &&
      !find_revision(*envelope.headers->protocol_version))
    return unsupported(*envelope.headers->protocol_version);
  if (const auto agreed = peer.agreed()) {
    terms.revision = *agreed;
    return terms;
  }
  const auto missing = [&] {
    return refused(Code::kInvalidParams,
                   "The request has no " + std::string(kVersionKey) +
                       " in _meta (revision 2026-07-28), and no initialize came before it (earlier ones).");
  };
  if (!envelope.headers) {
    if (request.method == "ping") return terms;
    return missing();
  }
  if (request.method == "server/discover") return missing();
  if (!envelope.headers->protocol_version) {
    terms.revision = kWithoutHeader;
    return terms;
  }
  terms.revision = *find_revision(*envelope.headers->protocol_version);
  if (is_stateless(terms.revision)) return missing();
  return terms;
}

}  // namespace

std::optional<std::string> decoded_header(std::string_view value) {
  constexpr std::string_view kBegin = "=?base64?", kEnd = "?=";
  if (!value.starts_with(kBegin) || !value.ends_with(kEnd) || value.size() < kBegin.size() + kEnd.size())
    return std::string(value);
  return base64_decode(value.substr(kBegin.size(), value.size() - kBegin.size() - kEnd.size()));
}

std::expected<RequestTerms, RefusedRequest> terms_of(const Message& request, const Envelope& envelope) {
  static const Json kNothing = Json::object();
  const auto found = request.params.find("_meta");
  const Json& meta = found != request.params.end() ? *found : kNothing;
  if (!meta.is_object()) return refused(Code::kInvalidParams, "_meta is an object.");
  const auto version = meta.find(kVersionKey);
  auto terms = version != meta.end() ? stateless_terms(request, meta, *version, envelope)
                                     : legacy_terms(request, envelope);
  if (!terms) return terms;
  if (const auto token = meta.find("progressToken"); token != meta.end() && is_id(*token))
    terms->progress_token = *token;
  return terms;
}

}  // namespace membrane::mcp

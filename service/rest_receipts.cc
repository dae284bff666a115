// Handlers of receipts, and of their signing keys.
#include "service/rest_call.h"
#include "service/times.h"

namespace membrane::service {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kLines = "application/x-ndjson";

OrderedJson to_json(const ReceiptInfo& info) {
  return {{"exec_id", info.exec},
          {"digest", info.digest},
          {"context", info.context},
          {"turn", info.turn},
          {"made_at", iso_time(info.made_at_ms)},
          {"size_bytes", info.size_bytes},
          {"private_size_bytes", info.private_size_bytes}};
}

class ReceiptHandlers {
 public:
  ReceiptHandlers(Sandboxes& sandboxes, Audit* audit) : sandboxes_(sandboxes), audit_(audit) {}

  void list(const SharedCall& call) const {
    if (sandboxes_.receipts() == nullptr) return refuse_all(call);
    const std::string& sandbox = call->parameter("sandbox");
    auto all = sandboxes_.receipts()->list(call->caller.tenant, sandbox);
    if (!all && all.error().code == ApiCode::kNotFound && sandboxes_.get(call->caller.tenant, sandbox))
      all = std::vector<ReceiptInfo>();  // it is there, and none was made
    if (!all) return call->refuse(all.error());
    OrderedJson list = OrderedJson::array();
    for (const ReceiptInfo& info : *all) list.push_back(to_json(info));
    call->answer(200, {{"receipts", list}});
  }
  void get(const SharedCall& call) const { answer_text(call, false); }
  void get_private(const SharedCall& call) const { answer_text(call, true); }

  void get_keys(const SharedCall& call) const {
    if (sandboxes_.receipts() == nullptr) return refuse_all(call);
    auto keys = sandboxes_.receipts()->public_keys();
    if (keys) call->reply(json_response(200, *std::move(keys)));
    else call->refuse(keys.error());
  }
  void rotate(const SharedCall& call) const {
    if (sandboxes_.receipts() == nullptr) return refuse_all(call);
    const auto key = sandboxes_.receipts()->rotate();
    if (!key) return call->refuse(key.error());
    if (const Status noted = note(call, "key.rotated", *key); !noted)
      return call->refuse(api_error(noted.error()));
    call->answer(201, {{"key", *key}});
  }
  void revoke(const SharedCall& call) const {
    if (sandboxes_.receipts() == nullptr) return refuse_all(call);
    const std::string& key = call->parameter("key");
    const auto revoked = sandboxes_.receipts()->revoke(key);
    if (!revoked) return call->refuse(revoked.error());
    if (const Status noted = note(call, "key.revoked", key); !noted)
      return call->refuse(api_error(noted.error()));
    call->answer_nothing();
  }

 private:
  static void refuse_all(const SharedCall& call) {
    call->refuse({ApiCode::kUnsupported, "this service makes no receipts", ""});
  }
  void answer_text(const SharedCall& call, bool is_private) const {
    if (sandboxes_.receipts() == nullptr) return refuse_all(call);
    auto text = sandboxes_.receipts()->text(call->caller.tenant, call->parameter("sandbox"),
                                            call->parameter("exec"), is_private);
    if (!text) return call->refuse(text.error());
    Response response{.status = 200, .headers = {{"Content-Type", kLines}}, .body = *std::move(text)};
    if (is_private) response.headers.add("Cache-Control", "no-store");
    call->reply(std::move(response));
  }
  [[nodiscard]] Status note(const SharedCall& call, std::string_view event, const std::string& key) const {
    if (audit_ == nullptr) return {};
    return audit_->add(
        event, {{"key", key}, {"by", call->caller.token_id}, {"request_id", call->request.request_id}},
        Hold::kPowerCut);
  }

  Sandboxes& sandboxes_;
  Audit* audit_;
};

}  // namespace

void add_receipt_handlers(Handlers& handlers, Sandboxes& sandboxes, Audit* audit) {
  using Method = void (ReceiptHandlers::*)(const SharedCall&) const;
  constexpr std::pair<std::string_view, Method> kMethods[] = {
      {"listReceipts", &ReceiptHandlers::list},
      {"getReceipt", &ReceiptHandlers::get},
      {"getPrivateReceipt", &ReceiptHandlers::get_private},
      {"getKeys", &ReceiptHandlers::get_keys},
      {"rotateKey", &ReceiptHandlers::rotate},
      {"revokeKey", &ReceiptHandlers::revoke}};
  for (const auto& [id, method] : kMethods)
    handlers.emplace(
        id, [of = ReceiptHandlers(sandboxes, audit), method](const SharedCall& call) { (of.*method)(call); });
}

}  // namespace membrane::service

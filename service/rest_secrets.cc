// Handlers of secrets: values can be stored, but never read.
#include "service/rest_call.h"
#include "service/times.h"

namespace membrane::service {
namespace {

nlohmann::ordered_json to_json(const SecretInfo& info) {
  return {{"name", info.name}, {"hosts", info.hosts}, {"updated_at", iso_time(info.updated_at_ms)}};
}

}  // namespace

void add_secret_handlers(Handlers& handlers, Secrets& secrets) {
  handlers.emplace("putSecret", [&secrets](const SharedCall& call) {
    const auto put = secrets.put(call->caller.tenant,
                                 {.name = call->parameter("secret"),
                                  .hosts = call->body["hosts"].get<std::vector<std::string>>(),
                                  .updated_at_ms = system_now_ms()},
                                 call->body["value"].get_ref<const std::string&>());
    if (put) call->answer(200, to_json(*put));
    else call->refuse(put.error());
  });
  handlers.emplace("listSecrets", [&secrets](const SharedCall& call) {
    auto list = nlohmann::ordered_json::array();
    for (const SecretInfo& info : secrets.list(call->caller.tenant)) list.push_back(to_json(info));
    call->answer(200, {{"secrets", list}});
  });
  handlers.emplace("deleteSecret", [&secrets](const SharedCall& call) {
    answer_done(call, secrets.remove(call->caller.tenant, call->parameter("secret")));
  });
}

}  // namespace membrane::service

// Handlers of secrets: values can be stored, but never read.
#include "service/rest_call.h"
#include "service/times.h"

namespace membrane::service {
namespace {

nlohmann::ordered_json to_json(const SecretInfo& info) {
  return {{"name", info.name}, {"hosts", info.hosts}, {"updated_at", iso_time(info.updated_at_ms)}};
}

}  // namespace

void add_secret_handlers(Handlers& handlers, Sandboxes& sandboxes, Secrets& secrets) {
  handlers.emplace("putSecret", [&sandboxes, &secrets](const SharedCall& call) {
    const auto put = secrets.put(call->caller.tenant,
                                 {.name = call->parameter("secret"),
                                  .hosts = call->body["hosts"].get<std::vector<std::string>>(),
                                  .updated_at_ms = system_now_ms()},
                                 call->body["value"].get_ref<const std::string&>());
    if (!put) return call->refuse(put.error());
    std::string hosts;
    for (const std::string& host : put->hosts) hosts += (hosts.empty() ? "" : ", ") + host;
    const auto noted = sandboxes.note(call->actor(), "secret.put", {{"secret", put->name}, {"hosts", hosts}});
    if (noted) call->answer(200, to_json(*put));
    else call->refuse(noted.error());
  });
  handlers.emplace("listSecrets", [&secrets](const SharedCall& call) {
    auto list = nlohmann::ordered_json::array();
    for (const SecretInfo& info : secrets.list(call->caller.tenant)) list.push_back(to_json(info));
    call->answer(200, {{"secrets", list}});
  });
  handlers.emplace("deleteSecret", [&sandboxes, &secrets](const SharedCall& call) {
    const std::string& name = call->parameter("secret");
    auto removed = secrets.remove(call->caller.tenant, name);
    if (removed) removed = sandboxes.note(call->actor(), "secret.removed", {{"secret", name}});
    answer_done(call, removed);
  });
}

}  // namespace membrane::service

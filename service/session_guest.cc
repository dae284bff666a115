#include "service/session_guest.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sandbox/receipts/receipt_recorder.h"
#include "service/environments.h"
#include "service/times.h"

namespace membrane::service {
namespace {

ApiError file_error(const host::HostError& error, const std::string& path) {
  using enum host::Errno;
  const auto code_of = [](host::Errno code) {
    switch (code) {
      case kNotFound: return ApiCode::kNotFound;
      case kAccess: return ApiCode::kForbidden;
      case kTooBig: return ApiCode::kTooLarge;
      case kExists:
      case kNotEmpty: return ApiCode::kConflict;
      case kUnsupported: return ApiCode::kUnsupported;
      case kHost: return ApiCode::kUnavailable;
      default: return ApiCode::kInvalidValue;
    }
  };
  return {code_of(error.code),
          error.reason.empty() ? path + ": " + std::string(host::describe(error.code)) : error.reason,
          !path.starts_with('/') ? "Paths in a sandbox are absolute, as /tmp/data.csv."
          : error.code == kNotFound
              ? "The list of files says what there is: files.list() of the clients, GET "
                "…/files/list."
          : error.code == kNotEmpty ? "Remove it with recursive=true."
                                    : ""};
}

sandbox::Report invalid_report(const ApiError& error) {
  sandbox::Report report;
  const bool is_lost = error.code == ApiCode::kConflict;  // the turn itself is fine
  report.outcome = is_lost ? sandbox::Outcome::kFailed : sandbox::Outcome::kInvalid;
  sandbox::ReportError& shown = report.errors.emplace_back();
  shown.code = name_of(error.code);
  shown.message = error.message;
  shown.hint = error.hint;
  return report;
}

ApiError no_context(const std::string& id) {
  return {ApiCode::kNotFound, "the sandbox has no context " + id, "GET …/contexts lists them."};
}

// Nothing of it can be recovered: a later attempt would fail the same way.
ApiError lost(const std::string& why) {
  return {ApiCode::kConflict, "the sandbox is lost: " + why, "End it, and create another."};
}

class SessionGuest final : public Guest {
 public:
  SessionGuest(const GuestSpec& spec, MakeSource make_source)
      : spec_(spec), make_source_(std::move(make_source)), bounds_(spec.policy.limits) {}

  Answer<void> begin() {
    spec_.environment.clear();  // until it is set
    return open_context("", "");
  }
  Answer<void> begin_from(const std::vector<KeptContext>& contexts) {
    for (const KeptContext& kept : contexts) {
      auto source = make_source_(kept.template_name, spec_.policy);
      if (!source) return std::unexpected(source.error());
      Context context{kept.template_name, *std::move(source), nullptr, nullptr};
      if (!kept.seal.empty()) {
        context.recorder = make_recorder();
        if (const Status restored = context.recorder->restore(kept.seal); !restored)
          return std::unexpected(api_error(restored.error()));
      }
      auto session = context.source->restore(kept.bytes, options(context));
      if (!session) return std::unexpected(api_error(session.error()));
      context.session = *std::move(session);
      contexts_.insert_or_assign(kept.id, std::move(context));
    }
    if (contexts_.contains("")) return {};
    return refuse(ApiCode::kInvalidValue, "the saved state has no context of its own", "");
  }

  sandbox::Report exec(const GuestTurn& turn) override {
    const auto context = find(turn.context);
    if (!context) return invalid_report(context.error());
    if (const auto sealable = check_seal(**context, turn); !sealable) return invalid_report(sealable.error());
    Environment environment = spec_.environment;
    for (const auto& [name, value] : turn.environment) environment.insert_or_assign(name, value);
    if (const auto set = change(**context, spec_.environment, environment); !set)
      return invalid_report(set.error());
    bounds_.begin_turn(turn);
    sandbox::Turn said{.code = turn.code,
                       .name = turn.name,
                       .is_script = turn.is_script,
                       .arguments = turn.arguments,
                       .input = turn.stdin_text,
                       .on_stdout = turn.on_stdout,
                       .on_stderr = turn.on_stderr,
                       .read_input = turn.read_input};
    if ((*context)->recorder) (*context)->recorder->attach(said);
    bounds_.watch(turn.egress);
    approve_ = turn.approve;
    const host::FlowsShared shared(flows_, turn.flows);
    sandbox::Report report = (*context)->session->exec(said);
    approve_ = nullptr;
    bounds_.watch(nullptr);
    if ((*context)->recorder) seal(**context, turn, report);
    if (!turn.environment.empty()) {
      bounds_.allow();  // the turn is over, and this does not belong to it
      (void)change(**context, environment, spec_.environment);
    }
    return report;
  }
  void stop() override { bounds_.stop(); }
  void allow() override { bounds_.allow(); }

  Answer<void> open_context(const std::string& id, const std::string& template_name) override {
    if (contexts_.contains(id))
      return refuse(ApiCode::kConflict, "the sandbox has a context " + id + " already");
    const std::string& wanted = template_name.empty() ? spec_.template_name : template_name;
    auto source = make_source_(wanted, spec_.policy);
    if (!source) return std::unexpected(source.error());
    Context context{wanted, *std::move(source), nullptr, nullptr};
    if (spec_.seals) context.recorder = make_recorder();
    auto session = context.source->create(options(context));
    if (!session) return std::unexpected(api_error(session.error()));
    context.session = *std::move(session);
    if (const auto set = change(context, {}, spec_.environment); !set) return set;
    contexts_.emplace(id, std::move(context));
    return {};
  }
  Answer<void> close_context(const std::string& id) override {
    if (id.empty() || contexts_.erase(id) == 0) return std::unexpected(no_context(id));
    return {};
  }

  Answer<void> set_environment(const Environment& environment) override {
    if (auto checked = check_environment(environment); !checked) return checked;
    for (auto at = contexts_.begin(); at != contexts_.end(); ++at) {
      const auto set = change(at->second, spec_.environment, environment);
      if (set) continue;
      while (at != contexts_.begin()) (void)change((--at)->second, environment, spec_.environment);
      return set;
    }
    spec_.environment = environment;
    return {};
  }

  Answer<void> set_policy(const policy::Policy& policy, const host::Secrets& secrets) override {
    if (const Status held = policy::check_for_wasm(policy); !held)
      return std::unexpected(api_error(held.error()));
    for (const auto& [id, context] : contexts_)
      if (const auto room = has_room_for(context, policy); !room) return room;
    std::map<std::string, std::unique_ptr<sandbox::Session>> changed;
    const GuestSpec before = spec_;
    spec_.policy = policy;
    spec_.secrets = secrets;
    bounds_.set_limits(policy.limits);
    for (const auto& [id, context] : contexts_) {
      auto made = again(context);
      if (!made) {
        spec_ = before;
        bounds_.set_limits(before.policy.limits);
        return std::unexpected(made.error());
      }
      changed.emplace(id, *std::move(made));
    }
    for (auto& [id, session] : changed) {
      Context& context = contexts_.at(id);
      context.session = std::move(session);
      if (!context.recorder) continue;
      context.recorder->note_policy(policy);
      context.recorder->set_most_bytes(receipt_bytes(policy.limits));
    }
    return {};
  }

  Answer<std::vector<KeptContext>> keep(std::optional<uint64_t> fork) override {
    std::vector<KeptContext> all;
    for (const auto& [id, context] : contexts_) {
      auto bytes = fork ? context.session->keep_fork(*fork) : context.session->keep();
      if (!bytes) return std::unexpected(error_of(*context.session, api_error(bytes.error())));
      all.push_back({id, context.template_name, *std::move(bytes), {}});
      if (context.recorder && !fork) all.back().seal = context.recorder->keep();
    }
    return all;
  }

  Answer<std::string> read_file(const std::string& context, const std::string& path) override {
    return in_context<std::string>(context, path, [&](sandbox::Session& s) { return s.read_file(path); });
  }
  Answer<void> write_file(const std::string& context, const std::string& path,
                          std::string_view bytes) override {
    if (const auto room = has_room_for(context, path.size() + bytes.size()); !room) return room;
    tell_time(context);
    auto put = in_context<void>(context, path, [&](sandbox::Session& s) { return s.put_file(path, bytes); });
    note(context, {"put", path, std::string(bytes)});
    return put;
  }
  Answer<std::vector<wasi::FileFact>> act_on_files(const std::string& context,
                                                   const wasi::FileRequest& request) override {
    if (const auto room = has_room_for(context, request.path.size() + request.to.size()); !room)
      return std::unexpected(room.error());
    if (!act_of(request).empty()) tell_time(context);
    auto facts = in_context<std::vector<wasi::FileFact>>(
        context, request.path, [&](sandbox::Session& s) { return s.act_on_files(request); });
    note(context, act_of(request));
    return facts;
  }
  Answer<std::vector<sandbox::ReportFile>> files(const std::string& context) override {
    const auto found = find(context);
    if (!found) return std::unexpected(found.error());
    auto files = (*found)->session->files();
    if (const std::string why = (*found)->session->why_lost(); !why.empty())
      return std::unexpected(lost(why));
    return files;
  }
  [[nodiscard]] std::shared_ptr<host::Flows> flows() const override { return flows_; }

 private:
  struct Context {
    std::string template_name;
    std::shared_ptr<SessionSource> source;
    std::unique_ptr<sandbox::ReceiptRecorder> recorder;  // null: its turns are not sealed
    std::unique_ptr<sandbox::Session> session;           // declared after what its options refer to
  };

  // What one context has read counts for all: a client can carry it from one to another.
  [[nodiscard]] sandbox::RunOptions options(const Context& context) {
    sandbox::RunOptions options = bounds_.options(spec_.policy, spec_.secrets);
    options.flows = flows_;
    options.approve = [this](const host::EgressQuestion& question) {
      return approve_ ? approve_(question) : host::Approval::kNobody;
    };
    if (context.recorder) context.recorder->attach(options);
    return options;
  }

  // -- receipts
  [[nodiscard]] std::unique_ptr<sandbox::ReceiptRecorder> make_recorder() const {
    auto recorder = std::make_unique<sandbox::ReceiptRecorder>(sandbox::ReceiptKey());
    recorder->set_most_bytes(receipt_bytes(spec_.policy.limits));
    return recorder;
  }
  static Answer<void> check_seal(const Context& context, const GuestTurn& turn) {
    if ((context.recorder != nullptr) != (turn.seal != nullptr))
      return refuse(ApiCode::kConflict, "the sandbox was made without \"seal\"",
                    "Create one with \"seal\": true: receipts cover a session from its first turn on.");
    if (context.recorder == nullptr) return {};
    if (const Status usable = context.recorder->usable(); !usable) {
      ApiError error = api_error(usable.error());
      error.code = ApiCode::kConflict;
      return std::unexpected(std::move(error));
    }
    context.recorder->sign_with(turn.seal->key);
    return {};
  }
  void seal(Context& context, const GuestTurn& turn, sandbox::Report& report) const {
    sandbox::ReceiptRecorder& recorder = *context.recorder;
    sandbox::MadeOf made_of{turn.code,
                            {.name = turn.name,
                             .entry = {},
                             .is_script = turn.is_script,
                             .given_input = turn.stdin_text,
                             .arguments = turn.arguments,
                             .environment = {}},
                            &context.source->of(),
                            &spec_.policy};
    const auto sealed = recorder.seal_turn(std::move(made_of), report);
    if (!sealed) return tell_unsealed(api_error(sealed.error()), report);
    const auto kept = turn.seal->keep(*sealed, recorder.turn());
    if (kept) return;
    recorder.break_chain(kept.error().message);
    tell_unsealed(kept.error(), report);
  }
  // The next receipt, for bytes or a policy; without a recorder there is none.
  static Answer<void> has_room_for(const Context& context, const auto& more) {
    const Status room = context.recorder ? context.recorder->has_room_for(more) : Status();
    if (room) return {};
    return refuse(ApiCode::kTooLarge, room.error().message, room.error().hint);
  }
  Answer<void> has_room_for(const std::string& id, uint64_t bytes) {
    const auto found = contexts_.find(id);
    return found == contexts_.end() ? Answer<void>() : has_room_for(found->second, bytes);
  }
  // Includes failures, which may have had a partial effect.
  void note(const std::string& id, sandbox::OwnerAct act) {
    const auto found = contexts_.find(id);
    if (found == contexts_.end() || !found->second.recorder || act.empty()) return;
    found->second.recorder->note(std::move(act));
  }
  // The owner's files have real times if the program's clock is real.
  void tell_time(const std::string& id) {
    constexpr uint64_t kNsInMs = 1'000'000;
    const auto context = find(id);
    if (!context || !spec_.policy.time.real) return;
    const uint64_t now_ns = static_cast<uint64_t>(system_now_ms()) * kNsInMs;
    (void)(*context)->session->act_on_files({.act = wasi::FileAct::kTellTime, .path = {}, .time_ns = now_ns});
    note(id, {"time", std::to_string(now_ns)});
  }
  // Empty if nothing changes.
  static sandbox::OwnerAct act_of(const wasi::FileRequest& request) {
    switch (request.act) {
      case wasi::FileAct::kMakeDirectory: return {"make_directory", request.path};
      case wasi::FileAct::kRemove: return {request.is_deep ? "remove_all" : "remove", request.path};
      case wasi::FileAct::kMove: return {"move", request.path, request.to};
      default: return {};
    }
  }

  Answer<Context*> find(const std::string& id) {
    const auto found = contexts_.find(id);
    if (found == contexts_.end()) return std::unexpected(no_context(id));
    return &found->second;
  }

  static ApiError error_of(const sandbox::Session& session, ApiError error) {
    const std::string why = session.why_lost();
    return why.empty() ? std::move(error) : lost(why);
  }

  template <typename T, typename Act>
  Answer<T> in_context(const std::string& id, const std::string& path, Act act) {
    const auto context = find(id);
    if (!context) return std::unexpected(context.error());
    host::HostResult<T> done = act(*(*context)->session);
    if (!done)
      return std::unexpected(
          error_of(*(*context)->session, with_other_contexts(file_error(done.error(), path), id, path)));
    if constexpr (std::is_void_v<T>) return {};
    else return *std::move(done);
  }

  // The file is not in this context, but in another one.
  ApiError with_other_contexts(ApiError error, const std::string& id, const std::string& path) {
    if (error.code != ApiCode::kNotFound) return error;
    for (const auto& [other, context] : contexts_) {
      if (other == id || !context.session->act_on_files({wasi::FileAct::kStat, path, "", false})) continue;
      error.hint =
          (other.empty() ? "The default context" : "The context " + other) +
          " has a file of this name, and contexts have files of their own: read it with \"context\"" +
          (other.empty() ? " left out." : ": \"" + other + "\".");
      break;
    }
    return error;
  }

  // By a turn of its own, which the program does not notice. The environment stays `from` when it fails.
  Answer<void> change(Context& context, const Environment& from, const Environment& to) {
    const auto code = code_to_change(context.source->language(), from, to);
    if (!code) return std::unexpected(code.error());
    if (code->empty()) return {};
    if (const auto room = has_room_for(context, code->size()); !room) return room;
    const sandbox::Report report = run_change(context, *code);
    if (report.outcome == sandbox::Outcome::kOk) return {};
    if (const std::string why = context.session->why_lost(); !why.empty()) return std::unexpected(lost(why));
    // A turn that raised has set what came before the error; any other failed turn was undone.
    if (const auto back = code_to_change(context.source->language(), to, from);
        report.outcome == sandbox::Outcome::kRaised && back && has_room_for(context, back->size())) {
      bounds_.allow();
      (void)run_change(context, *back);
    }
    const bool has_error = !report.errors.empty();
    const bool is_own = has_error && report.outcome == sandbox::Outcome::kRaised;
    return refuse(
        ApiCode::kInvalidValue,
        "the environment could not be set: " + (is_own ? report.errors.front().code + ": " : std::string()) +
            (has_error ? report.errors.front().message : std::string(name_of(report.outcome))),
        report.outcome == sandbox::Outcome::kOutOfFuel
            ? "Give the sandbox a larger policy.limits.fuel, or fewer variables."
        : is_own
            ? "A program in the sandbox has changed how variables are set: use another context or sandbox."
            : "");
  }
  sandbox::Report run_change(Context& context, const std::string& code) {
    bounds_.begin_turn({});
    sandbox::Report report = context.session->exec({.code = code, .name = "<environment>"});
    if (context.recorder) context.recorder->note({"run", "<environment>", code});
    return report;
  }

  Answer<std::unique_ptr<sandbox::Session>> again(const Context& context) {
    const auto bytes = context.session->keep();
    if (!bytes) return std::unexpected(error_of(*context.session, api_error(bytes.error())));
    auto made = context.source->restore(*bytes, options(context));
    if (!made) return std::unexpected(api_error(made.error()));
    return *std::move(made);
  }

  GuestSpec spec_;
  MakeSource make_source_;
  TurnBounds bounds_;
  std::shared_ptr<host::Flows> flows_ = std::make_shared<host::Flows>();
  host::Approve approve_;                    // of the running turn
  std::map<std::string, Context> contexts_;  // declared after the bounds, which their sessions borrow
};

}  // namespace

uint64_t receipt_bytes(const policy::Limits& limits) {
  constexpr uint64_t kLeast = 16u << 20, kMost = 256u << 20;
  return std::clamp(limits.memory_bytes, kLeast, kMost);
}

void tell_unsealed(const ApiError& why, sandbox::Report& report) {
  sandbox::ReportError& error = report.errors.emplace_back();
  error.code = "unsealed";
  error.message = "it ran, and has no receipt: " + why.message;
  error.hint = why.hint;
}

void TurnBounds::begin_turn(const GuestTurn& turn) {
  using enum policy::Resource;
  budget_->set(kFuel, std::min(limits_.fuel, turn.most_fuel.value_or(limits_.fuel)));
  budget_->set(kHostCalls, limits_.host_calls);
  budget_->set(kBytesIn, limits_.bytes_in);
  budget_->set(kBytesOut, limits_.bytes_out);
  budget_->set(kTokens, limits_.tokens);
  const auto wall = std::chrono::milliseconds(limits_.wall_ms);
  budget_->set_deadline(std::chrono::steady_clock::now() + std::min(wall, turn.most_time.value_or(wall)));
}

sandbox::RunOptions TurnBounds::options(const policy::Policy& policy, const host::Secrets& secrets) {
  sandbox::RunOptions options;
  options.egress_watch = &watch_;
  options.policy = policy;
  options.budget = budget_;
  options.cancel = &stop_;
  options.secrets = secrets ? secrets : [](const std::string&) { return std::optional<std::string>(); };
  return options;
}

Answer<std::unique_ptr<Guest>> make_session_guest(const GuestSpec& spec, MakeSource make_source) {
  auto guest = std::make_unique<SessionGuest>(spec, std::move(make_source));
  if (const auto begun = guest->begin(); !begun) return std::unexpected(begun.error());
  if (const auto set = guest->set_environment(spec.environment); !set) return std::unexpected(set.error());
  return guest;
}

Answer<std::unique_ptr<Guest>> restore_session_guest(const GuestSpec& spec, MakeSource make_source,
                                                     const std::vector<KeptContext>& contexts) {
  auto guest = std::make_unique<SessionGuest>(spec, std::move(make_source));
  if (const auto begun = guest->begin_from(contexts); !begun) return std::unexpected(begun.error());
  return guest;
}

}  // namespace membrane::service

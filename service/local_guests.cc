#include "host/random_fork.h"
#include "lang/language_names.h"
#include "lang/package.h"
#include "packages/provide.h"
#include "sandbox/languages.h"
#include "sandbox/receipt_recorder.h"
#include "sandbox/sandbox.h"
#include "sandbox/session_state.h"
#include "service/environments.h"
#include "service/session_guest.h"

namespace membrane::service {
namespace {

constexpr std::string_view kWat = "wat";

// Each turn is a program of its own, so only what they have read is kept.
class WatGuest final : public Guest {
 public:
  WatGuest(worker::Guests where, const GuestSpec& spec)
      : where_(std::move(where)), spec_(spec), bounds_(spec.policy.limits) {}

  sandbox::Report exec(const GuestTurn& turn) override {
    bounds_.begin_turn(turn);
    Environment environment = spec_.environment;
    for (const auto& [name, value] : turn.environment) environment.insert_or_assign(name, value);
    const host::FlowsShared shared(flows_, turn.flows);
    sandbox::RunOptions options = bounds_.options(spec_.policy, spec_.secrets);
    options.on_stdout = turn.on_stdout;
    options.on_stderr = turn.on_stderr;
    options.flows = flows_;
    options.approve = turn.approve;
    options.read_input = turn.read_input;
    bounds_.watch(turn.egress);
    sandbox::Program program{.source = turn.code,
                             .language = sandbox::Language::kWat,
                             .entry = {},
                             .arguments = turn.arguments,
                             .input = turn.stdin_text,
                             .environment = {environment.begin(), environment.end()}};
    if (turn.seal == nullptr) return where_.run(program, options, worker_);
    sandbox::ReceiptRecorder recorder(turn.seal->key);
    recorder.set_most_bytes(receipt_bytes(spec_.policy.limits));
    recorder.attach(options);
    sandbox::Report report = where_.run(program, options, worker_);
    sandbox::MadeOf made_of{program.source,
                            {.name = program.name,
                             .entry = {},
                             .given_input = program.input,
                             .arguments = program.arguments,
                             .environment = program.environment},
                            nullptr,
                            &spec_.policy};
    const auto sealed = recorder.seal_run(std::move(made_of), report);
    if (!sealed) tell_unsealed(api_error(sealed.error()), report);
    else if (const auto kept = turn.seal->keep(*sealed, 0); !kept) tell_unsealed(kept.error(), report);
    return report;
  }
  void stop() override { bounds_.stop(); }
  void allow() override { bounds_.allow(); }

  Answer<void> open_context(const std::string&, const std::string&) override { return keeps_nothing(); }
  Answer<void> close_context(const std::string&) override { return keeps_nothing(); }
  Answer<void> set_environment(const Environment& environment) override {
    if (auto checked = check_environment(environment); !checked) return checked;
    spec_.environment = environment;
    return {};
  }
  Answer<void> set_policy(const policy::Policy& policy, const host::Secrets& secrets) override {
    spec_.policy = policy;
    spec_.secrets = secrets;
    bounds_.set_limits(policy.limits);
    return {};
  }
  Answer<std::vector<KeptContext>> keep(std::optional<uint64_t>) override {
    const host::FlowState read = flows_->state();
    if (read.is_empty()) return std::vector<KeptContext>();
    sandbox::SessionState state;
    state.template_name = kWat;
    state.fresh = RandomStream(RandomStream::key_of(0));
    state.flows = read;
    return std::vector<KeptContext>{{"", std::string(kWat), sandbox::write_session(std::move(state))}};
  }
  // What keep() returned.
  Answer<void> begin_from(const std::vector<KeptContext>& contexts) {
    for (const KeptContext& kept : contexts) {
      const auto state = sandbox::read_session(kept.bytes);
      if (!state) return std::unexpected(api_error(state.error()));
      flows_->add(state->flows);
    }
    return {};
  }

  Answer<std::string> read_file(const std::string&, const std::string&) override { return keeps_nothing(); }
  Answer<void> write_file(const std::string&, const std::string&, std::string_view) override {
    return keeps_nothing();
  }
  Answer<std::vector<wasi::FileFact>> act_on_files(const std::string&, const wasi::FileRequest&) override {
    return keeps_nothing();
  }
  Answer<std::vector<sandbox::ReportFile>> files(const std::string&) override { return keeps_nothing(); }
  [[nodiscard]] std::shared_ptr<host::Flows> flows() const override { return flows_; }

 private:
  static std::unexpected<ApiError> keeps_nothing() {
    return refuse(ApiCode::kUnsupported,
                  "a sandbox of the template wat keeps no files and no state between its programs",
                  "Use one of python or javascript.");
  }

  worker::Guests where_;
  std::shared_ptr<worker::Worker> worker_;  // worker of the programs so far
  GuestSpec spec_;
  TurnBounds bounds_;
  std::shared_ptr<host::Flows> flows_ = std::make_shared<host::Flows>();
};

class LocalSource final : public SessionSource {
 public:
  LocalSource(worker::Guests where, std::string language, std::shared_ptr<const sandbox::Template> of)
      : where_(std::move(where)), language_(std::move(language)), template_(std::move(of)) {}

  [[nodiscard]] std::string language() const override { return language_; }
  [[nodiscard]] const sandbox::Template& of() const override { return *template_; }
  Result<std::unique_ptr<sandbox::Session>> create(sandbox::RunOptions options) override {
    return where_.create(template_, std::move(options));
  }
  Result<std::unique_ptr<sandbox::Session>> restore(std::span<const uint8_t> kept,
                                                    sandbox::RunOptions options) override {
    return where_.restore(template_, kept, std::move(options));
  }

 private:
  worker::Guests where_;
  std::string language_;
  std::shared_ptr<const sandbox::Template> template_;
};

class LocalGuests final : public Guests {
 public:
  explicit LocalGuests(LocalGuestsOptions options)
      : options_(std::move(options)),
        languages_({.cache_directory = options_.cache_directory, .on_progress = {}}) {}

  Answer<std::unique_ptr<Guest>> create(const GuestSpec& spec) override {
    if (const Status valid = policy::validate(spec.policy); !valid)
      return std::unexpected(api_error(valid.error()));
    if (const Status held = policy::check_for_wasm(spec.policy); !held)
      return std::unexpected(api_error(held.error()));
    if (auto checked = check_environment(spec.environment); !checked) return std::unexpected(checked.error());
    if (is_wat(spec)) return std::make_unique<WatGuest>(options_.where, spec);
    return make_session_guest(spec, sources());
  }
  Answer<std::unique_ptr<Guest>> restore(const GuestSpec& spec,
                                         const std::vector<KeptContext>& contexts) override {
    if (!is_wat(spec)) return restore_session_guest(spec, sources(), contexts);
    auto guest = std::make_unique<WatGuest>(options_.where, spec);
    if (const auto begun = guest->begin_from(contexts); !begun) return std::unexpected(begun.error());
    return guest;
  }

  [[nodiscard]] std::vector<TemplateInfo> templates() const override {
    std::vector<TemplateInfo> all = {{"wat", "", "WebAssembly's text; each exec is a program of its own"}};
    for (const lang::Package& package : lang::installed_packages())
      all.push_back({package.name == "js" ? "javascript" : package.name, package.version,
                     "a session: what an exec defines stays for the next"});
    return all;
  }

  [[nodiscard]] policy::Limits usual_limits(const std::string& template_name) const override {
    return lang::language_named(template_name) == kWat ? policy::Limits() : policy::language_limits();
  }

 private:
  static bool is_wat(const GuestSpec& spec) { return lang::language_named(spec.template_name) == kWat; }

  MakeSource sources() {
    return [this](const std::string& template_name, const policy::Policy& policy) {
      return source(template_name, policy);
    };
  }
  Answer<std::shared_ptr<SessionSource>> source(const std::string& template_name,
                                                const policy::Policy& policy) {
    const std::string name = lang::language_named(template_name);
    auto language = languages_.open_for_session(name);
    if (!language) {
      ApiError error = api_error(language.error());
      if (error.code == ApiCode::kNotFound)
        error.code = ApiCode::kInvalidValue;  // concerns the template, not the path
      return std::unexpected(std::move(error));
    }
    auto provided = with_packages(*std::move(language), policy.packages);
    if (!provided) return std::unexpected(provided.error());
    return std::make_shared<LocalSource>(options_.where, name, *std::move(provided));
  }
  Answer<std::shared_ptr<const sandbox::Template>> with_packages(
      std::shared_ptr<const sandbox::Template> language, const policy::Packages& packages) const {
    const packages::Names names = packages::names_for(language->package().driver);
    if (names == nullptr || (packages.*names).empty()) return language;
    if (options_.packages_cache_directory.empty())
      return refuse(ApiCode::kForbidden, "this service installs no packages",
                    "Use the built-in packages, or ask the service's owner to start it with --packages.");
    auto provided = packages::provide(
        std::move(language), {.named = packages.*names, .added = {}, .lock_file = {}},
        {.cache_directory = options_.packages_cache_directory, .on_progress = {}, .on_notice = {}});
    if (!provided) {
      ApiError error = api_error(provided.error());
      if (error.code == ApiCode::kNotFound) error.code = ApiCode::kUnavailable;  // the installer
      return std::unexpected(std::move(error));
    }
    return *std::move(provided);
  }

  const LocalGuestsOptions options_;
  sandbox::Languages languages_;
};

}  // namespace

std::unique_ptr<Guests> local_guests(LocalGuestsOptions options) {
  return std::make_unique<LocalGuests>(std::move(options));
}

}  // namespace membrane::service

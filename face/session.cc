#include "membrane/session.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/json.h"
#include "engine/memory/region_pool.h"
#include "face/agents.h"
#include "face/convert.h"
#include "face/hints.h"
#include "face/inner.h"
#include "face/isolated.h"
#include "face/packaged.h"
#include "face/policy.h"
#include "face/receipts.h"
#include "face/report.h"
#include "face/sources.h"
#include "lang/language_names.h"
#include "policy/granted_files.h"
#include "sandbox/session/language_templates.h"
#include "sandbox/session/session.h"

namespace membrane {

using Json = nlohmann::ordered_json;
using face::failure_of;

static_assert(static_cast<int>(Answer::Kind::kLater) ==
              static_cast<int>(sandbox::FunctionAnswer::Kind::kLater));

// -- Language -----------------------------------------------------------------------------------

struct Language::State {
  std::string name;
  std::shared_ptr<const sandbox::Template> opened;
  mutable face::Packaged packaged{};
};

Expected<Language> Language::open(std::string_view word, const LanguageOptions& options) {
  if (lang::is_typescript(word))
    return std::unexpected(
        face::invalid_argument("TypeScript is run by the language js",
                               "Open js, and give cells names that end in .ts: \"cell.ts\"."));
  const std::string name = lang::language_named(word);
  sandbox::TemplateOptions how{.cache_directory = options.cache_directory,
                               .on_progress = options.on_progress};
  if (how.cache_directory.empty())
    how.cache_directory = sandbox::LanguageTemplates::default_cache_directory();
  auto opened = sandbox::LanguageTemplates(std::move(how)).open_for_session(name);
  if (!opened) return std::unexpected(failure_of(opened.error()));
  return Language(std::make_shared<State>(name, *std::move(opened)));
}

const std::string& Language::name() const { return state_->name; }

// -- functions ----------------------------------------------------------------------------------

namespace {

std::string full_name(const std::string& owner, const std::string& name) {
  return owner.empty() ? name : owner + "." + name;
}

Json described(const GuestFunction& function) {
  Json spec = {{"name", function.name}};
  if (!function.module.empty()) spec["module"] = function.module;
  if (!function.signature.empty()) spec["signature"] = function.signature;
  if (!function.doc.empty()) spec["doc"] = function.doc;
  if (function.is_async) spec["is_async"] = true;
  return spec;
}

Json described(const GuestType& type) {
  Json spec = {
      {"name", type.name}, {"module", type.module}, {"doc", type.doc}, {"attributes", type.attributes}};
  spec["methods"] = Json::array();
  for (const GuestFunction& method : type.methods) spec["methods"].push_back(described(method));
  return spec;
}

Failure no_name(const std::string& name) {
  return face::invalid_argument('"' + name + "\" is not the name of a function, type, module or input",
                                "Use letters, digits and _, and begin with a letter.");
}

// Takes over the descriptions of functions, and their calls. Errors: for names, functions without a call,
// inputs that are not JSON.
class Functions {
 public:
  static Expected<std::shared_ptr<const sandbox::GuestFunctions>> of(SessionOptions& options) {
    Functions all;
    if (auto wrong = all.add(options)) return std::unexpected(*std::move(wrong));
    if (all.is_empty_ && !options.call_many) return nullptr;
    auto made = std::make_shared<sandbox::GuestFunctions>();
    if (!all.is_empty_) made->description = json_text(all.description_);
    made->has_values = all.description_.contains("values");
    made->call = [calls = std::move(all.calls_), many = std::move(options.call_many)](
                     std::span<const sandbox::FunctionCall> wanted, const sandbox::MustStop& must_stop) {
      return answer(calls, many, wanted, must_stop);
    };
    return made;
  }

 private:
  using Calls = std::map<std::string, std::function<Answer(const FunctionCall&)>, std::less<>>;
  using Many = std::function<std::vector<Answer>(std::span<const FunctionCall>)>;

  std::optional<Failure> add(const SessionOptions& options) {
    description_ = {{"modules", Json::array()}, {"types", Json::array()}, {"functions", Json::array()}};
    for (const auto& [name, doc] : options.modules) {
      if (!sandbox::is_identifier(name)) return no_name(name);
      description_["modules"].push_back({{"name", name}, {"doc", doc}});
    }
    for (const GuestType& type : options.types) {
      if (!sandbox::is_identifier(type.name)) return no_name(type.name);
      for (const GuestFunction& method : type.methods)
        if (auto wrong = add(type.name, method, options)) return wrong;
      description_["types"].push_back(described(type));
    }
    for (const GuestFunction& function : options.functions) {
      if (!function.module.empty() && !sandbox::is_identifier(function.module))
        return no_name(function.module);
      if (auto wrong = add(function.module, function, options)) return wrong;
      description_["functions"].push_back(described(function));
    }
    for (const auto& [name, value] : options.inputs) {
      if (!sandbox::is_identifier(name)) return no_name(name);
      auto parsed = read_ordered_json(value, "the input " + name);
      if (!parsed) return failure_of(parsed.error());
      description_["values"][name] = *std::move(parsed);
    }
    is_empty_ = options.functions.empty() && options.types.empty() && options.inputs.empty();
    return std::nullopt;
  }
  std::optional<Failure> add(const std::string& owner, const GuestFunction& function,
                             const SessionOptions& options) {
    if (!sandbox::is_identifier(function.name)) return no_name(function.name);
    const std::string name = full_name(owner, function.name);
    if (!function.call && !options.call_many)
      return face::invalid_argument("the function " + name + " has nothing to call",
                                    "Set GuestFunction::call, or SessionOptions::call_many.");
    calls_.insert_or_assign(name, function.call);
    return std::nullopt;
  }

  static std::vector<sandbox::FunctionAnswer> answer(const Calls& calls, const Many& many,
                                                     std::span<const sandbox::FunctionCall> wanted,
                                                     const sandbox::MustStop& must_stop) {
    std::vector<FunctionCall> given;
    for (const sandbox::FunctionCall& call : wanted)
      given.push_back({call.name, call.arguments, call.keywords, call.object, must_stop});
    std::vector<Answer> answers;
    try {
      if (many) answers = many(given);
      else
        for (const FunctionCall& call : given) answers.push_back(answer_one(calls, call));
    } catch (const std::exception& error) {
      answers.assign(given.size(), Answer::error("", error.what()));
    }
    return answers_of(std::move(answers));
  }
  static Answer answer_one(const Calls& calls, const FunctionCall& call) {
    const auto found = calls.find(call.name);
    if (found == calls.end() || !found->second) return Answer::error("NameError", "there is no " + call.name);
    return found->second(call);
  }

 public:
  static std::vector<sandbox::FunctionAnswer> answers_of(std::vector<Answer> answers) {
    std::vector<sandbox::FunctionAnswer> made;
    for (Answer& each : answers)
      made.push_back({static_cast<sandbox::FunctionAnswer::Kind>(each.kind), std::move(each.json),
                      std::move(each.type), std::move(each.message)});
    return made;
  }

 private:
  Json description_;
  Calls calls_;
  bool is_empty_ = true;
};

}  // namespace

// -- Session ------------------------------------------------------------------------------------

struct Session::State {
  // The objects that the session's options refer to.
  face::Company company;
  std::unique_ptr<face::Seal> seal;  // null: it is not sealed
  std::unique_ptr<sandbox::Session> session;
  std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  const std::atomic<bool>* cancelled_by = nullptr;  // in its place (face::Place); may be null
  // In a turn of a sealed session: what its calls ask of the session is refused, since no receipt would have it.
  bool runs = false;
  face::Reader reader = face::Reader::kEmbedder;
  uint64_t forks = 0;

  using Made = Result<std::unique_ptr<sandbox::Session>>;
  static Expected<Session> begin(const Language& language, SessionOptions options, const face::Place* place,
                                 std::optional<std::span<const uint8_t>> kept = {});
  // Called before each turn, and each part of one.
  const std::atomic<bool>* begin_turn() {
    *cancelled = false;
    return cancelled_by != nullptr ? cancelled_by : cancelled.get();
  }
  [[nodiscard]] Report report_of(sandbox::Report made) const {
    return face::report_of(std::move(made), reader);
  }
  // For a sealed session: checks that the next receipt has room for a file, and sets the session's time.
  [[nodiscard]] Status prepare_file(std::string_view path, std::string_view bytes) const;

 private:
  static Made begin_in(const std::shared_ptr<const sandbox::Template>& opened, const SessionOptions& options,
                       sandbox::RunOptions how, std::optional<std::span<const uint8_t>> kept);
};

namespace {

Expected<sandbox::RunOptions> run_options(SessionOptions& options) {
  sandbox::RunOptions made;
  made.policy = options.policy.state().policy;
  if (const Status there = policy::check_granted_files(made.policy); !there)
    return std::unexpected(failure_of(there.error()));
  auto functions = Functions::of(options);
  if (!functions) return std::unexpected(functions.error());
  made.guest_functions = *std::move(functions);
  made.on_stdout = std::move(options.on_stdout);
  made.on_stderr = std::move(options.on_stderr);
  made.on_poll = std::move(options.on_poll);
  if (options.budget) made.budget = options.budget->state().budget;
  if (options.flows) made.flows = options.flows->state().flows;
  made.approve = face::approve_of(std::move(options.approve));
  if (auto wrong = face::add_sources(options, made)) return std::unexpected(*std::move(wrong));
  return made;
}

Failure failure_of_file(const host::HostError& error) {
  return {.code = std::string(host::name_of(error.code)),
          .message = error.reason,
          .hint = face::embedder_hint(error.grant),
          .place = {},
          .backtrace = {}};
}

}  // namespace

Session::State::Made Session::State::begin_in(const std::shared_ptr<const sandbox::Template>& opened,
                                              const SessionOptions& options, sandbox::RunOptions how,
                                              std::optional<std::span<const uint8_t>> kept) {
  if (options.isolated)
    return face::isolated_session(*opened, std::move(how), options.accepted_missing_walls, kept);
  engine::RegionPool::instance().put_back_in_background();
  return kept ? sandbox::Session::restore(opened, *kept, std::move(how))
              : sandbox::Session::create(opened, std::move(how));
}

Expected<Session> Session::State::begin(const Language& language, SessionOptions options,
                                        const face::Place* place,
                                        std::optional<std::span<const uint8_t>> kept) {
  if (options.receipts)
    if (const Status sealed = kept ? face::not_sealed("is not loaded") : face::check_sealed(options); !sealed)
      return std::unexpected(failure_of(sealed.error()));
  auto how = run_options(options);
  if (!how) return std::unexpected(how.error());
  auto opened = language.state()->opened;
  if (place == nullptr) {
    auto with_packages = language.state()->packaged.with(opened, how->policy.packages);
    if (!with_packages) return std::unexpected(failure_of(with_packages.error()));
    opened = *std::move(with_packages);
  }
  auto state = std::make_unique<State>();
  state->company = {face::model_of(std::move(options.model)), face::person_of(std::move(options.ask))};
  state->company.join(*how);
  if (options.receipts) {
    state->seal = std::make_unique<face::Seal>(*std::move(options.receipts), opened);
    state->seal->attach(*how);
  }
  if (place != nullptr) {
    state->cancelled_by = place->cancel;
    state->reader = face::Reader::kCommand;
    how->packages_by = place->packages_by;
  }
  auto made = place != nullptr ? place->guests.create(opened, *std::move(how))
                               : begin_in(opened, options, *std::move(how), kept);
  if (!made) return std::unexpected(failure_of(made.error()));
  state->session = *std::move(made);
  return Session(std::move(state));
}

Status Session::State::prepare_file(std::string_view path, std::string_view bytes) const {
  MEMBRANE_TRY(seal->has_room_for(path, bytes));
  if (!seal->has_real_time()) return {};
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto now_ns = static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
  (void)session->act_on_files({.act = wasi::FileAct::kTellTime, .path = {}, .time_ns = now_ns});
  seal->note({"time", std::to_string(now_ns)});
  return {};
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Expected<Session> Session::create(const Language& language, SessionOptions options) {
  return State::begin(language, std::move(options), nullptr);
}

Expected<Session> Session::load(const Language& language, std::span<const uint8_t> bytes,
                                SessionOptions options) {
  return State::begin(language, std::move(options), nullptr, bytes);
}

Report Session::run(const Cell& cell) {
  const sandbox::Turn turn{.code = cell.code,
                           .name = cell.name,
                           .is_script = cell.is_script,
                           .only_checks = cell.only_checks,
                           .declares_calls = cell.declares_calls,
                           .arguments = cell.arguments,
                           .input = cell.input,
                           .inputs = cell.inputs,
                           .pause_at_fuel = cell.pause_at_fuel,
                           .cancel = state_->begin_turn()};
  if (!state_->seal) return state_->report_of(state_->session->exec(turn));
  if (cell.pause_at_fuel) return face::refused(face::not_sealed("is not paused").error());
  if (cell.only_checks) return face::refused(face::not_sealed("is run, and not only checked").error());
  if (!cell.inputs.empty()) return face::refused(face::not_sealed("has no inputs of the embedder's").error());
  if (std::exchange(state_->runs, true)) return state_->report_of(state_->session->exec(turn));
  Report report = state_->report_of(state_->session->exec(turn));
  state_->runs = false;
  state_->seal->keep(turn, report);
  return report;
}

Report Session::resume(std::vector<Answer> answers) {
  state_->session->cancel_by(state_->begin_turn());
  return state_->report_of(state_->session->resume(Functions::answers_of(std::move(answers))));
}

Expected<void> Session::abandon() {
  if (const Status done = state_->session->abandon(); !done) return std::unexpected(failure_of(done.error()));
  return {};
}

Report Session::resume_paused(std::optional<uint64_t> pause_at_fuel) {
  state_->session->cancel_by(state_->begin_turn());
  return state_->report_of(state_->session->go_on(pause_at_fuel));
}

std::vector<FunctionCall> Session::waits_for() const {
  std::vector<FunctionCall> calls;
  for (sandbox::FunctionCall& call : state_->session->waits_for())
    calls.push_back({std::move(call.name),
                     std::move(call.arguments),
                     std::move(call.keywords),
                     std::move(call.object),
                     {}});
  return calls;
}

std::optional<uint64_t> Session::paused_at_fuel() const { return state_->session->paused_at_fuel(); }

Expected<Session> Session::fork() {
  if (state_->seal) return std::unexpected(failure_of(face::not_sealed("is not forked").error()));
  auto made = state_->session->fork(state_->forks++);
  if (!made) return std::unexpected(failure_of(made.error()));
  auto forked = std::make_unique<State>();
  forked->company = state_->company;
  forked->cancelled_by = state_->cancelled_by;
  forked->reader = state_->reader;
  forked->session = *std::move(made);
  return Session(std::move(forked));
}

Expected<std::vector<uint8_t>> Session::dump() const {
  auto kept = state_->session->keep();
  if (!kept) return std::unexpected(failure_of(kept.error()));
  return *std::move(kept);
}

Expected<std::string> Session::read_file(std::string_view path) const {
  auto bytes = state_->session->read_file(path);
  if (!bytes) return std::unexpected(failure_of_file(bytes.error()));
  return *std::move(bytes);
}

Expected<void> Session::write_file(std::string_view path, std::string_view bytes) {
  if (state_->runs)
    return std::unexpected(face::invalid_argument("a turn of the session is running",
                                                  "Write the file before the turn, or after it."));
  if (state_->seal)
    if (const Status room = state_->prepare_file(path, bytes); !room)
      return std::unexpected(failure_of(room.error()));
  const auto put = state_->session->put_file(path, bytes);
  if (state_->seal) state_->seal->note({"put", std::string(path), std::string(bytes)});
  if (!put) return std::unexpected(failure_of_file(put.error()));
  return {};
}

std::vector<Report::File> Session::files() const {
  std::vector<Report::File> files;
  for (sandbox::ReportFile& file : state_->session->files())
    files.push_back({std::move(file.path), file.size_bytes});
  return files;
}

std::vector<std::string> Session::complete(std::string_view code) { return state_->session->complete(code); }

void Session::cancel() { state_->cancelled->store(true, std::memory_order_relaxed); }

// -- inner.h ------------------------------------------------------------------------------------

Expected<Session> face::create_session(const Language& language, SessionOptions options, const Place& place) {
  return Session::State::begin(language, std::move(options), &place);
}

Language face::language_of(std::shared_ptr<const sandbox::Template> opened) {
  std::string name = opened->package().name;
  return Language(std::make_shared<Language::State>(std::move(name), std::move(opened)));
}

}  // namespace membrane

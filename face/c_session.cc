// The C face of sessions over the C++ one.

#include <algorithm>
#include <cstdlib>

#include "face/c_handles.h"
#include "face/convert.h"

using namespace membrane::face;

struct membrane_language {
  membrane::Language language;
};

struct membrane_session {
  membrane::Session session;
};

struct membrane_answer {
  membrane::Answer answer = membrane::Answer::error("", "the function has not answered");
};

namespace {

std::function<void(std::string_view)> listener_of(membrane_listener listener, void* user_data) {
  if (listener == nullptr) return nullptr;
  return [=](std::string_view text) { listener(user_data, text.data(), text.size()); };
}

membrane_function_call to_c(const membrane::FunctionCall& call) {
  return {call.name.c_str(), call.arguments.c_str(), call.keywords.c_str(), call.object.c_str(),
          &call.must_stop};
}

std::vector<membrane::Answer> call_back(membrane_functions_callback callback, void* user_data,
                                        std::span<const membrane::FunctionCall> calls) {
  std::vector<membrane_function_call> seen;
  for (const membrane::FunctionCall& call : calls) seen.push_back(to_c(call));
  std::vector<membrane_answer> said(calls.size());
  std::vector<membrane_answer*> handles;
  for (membrane_answer& each : said) handles.push_back(&each);
  callback(user_data, seen.data(), seen.size(), handles.data());
  std::vector<membrane::Answer> answers;
  for (membrane_answer& each : said) answers.push_back(std::move(each.answer));
  return answers;
}

membrane::SessionClock clock_of(const membrane_sources& sources, void* user_data) {
  using membrane::SessionClock;
  switch (sources.clock) {
    case MEMBRANE_SOURCE_DEFAULT: return {};
    case MEMBRANE_SOURCE_VIRTUAL: return SessionClock::starting_at(sources.clock_start_ms);
    case MEMBRANE_SOURCE_REAL: return SessionClock::real();
    case MEMBRANE_SOURCE_ASKED: break;
  }
  if (sources.now == nullptr) return SessionClock::asked(nullptr);
  return SessionClock::asked([now = sources.now, user_data]() -> std::optional<int64_t> {
    int64_t now_ns = 0;
    return now(user_data, &now_ns) ? std::optional(now_ns) : std::nullopt;
  });
}

membrane::SessionSleep sleep_of(const membrane_sources& sources, void* user_data) {
  using membrane::SessionSleep;
  switch (sources.sleep) {
    case MEMBRANE_SOURCE_DEFAULT: return {};
    case MEMBRANE_SOURCE_VIRTUAL: return SessionSleep::at_once();
    case MEMBRANE_SOURCE_REAL: return SessionSleep::real();
    case MEMBRANE_SOURCE_ASKED: break;
  }
  if (sources.pass == nullptr) return SessionSleep::asked(nullptr);
  return SessionSleep::asked(
      [pass = sources.pass, user_data](uint64_t duration_ns, const std::function<bool()>& must_stop) {
        const auto stop = [](void* turn) { return (*static_cast<const std::function<bool()>*>(turn))(); };
        return pass(user_data, duration_ns, stop, const_cast<std::function<bool()>*>(&must_stop));
      });
}

membrane::SessionEntropy entropy_of(const membrane_sources& sources, void* user_data) {
  using membrane::SessionEntropy;
  switch (sources.entropy) {
    case MEMBRANE_SOURCE_DEFAULT: return {};
    case MEMBRANE_SOURCE_VIRTUAL:
      if (sources.seed_size == 0) return SessionEntropy::seeded(sources.seed);
      return SessionEntropy::seeded(
          std::string(reinterpret_cast<const char*>(sources.seed_bytes), sources.seed_size));
    case MEMBRANE_SOURCE_REAL: return SessionEntropy::real();
    case MEMBRANE_SOURCE_ASKED: break;
  }
  if (sources.fill == nullptr) return SessionEntropy::asked(nullptr);
  return SessionEntropy::asked([fill = sources.fill, user_data](std::span<uint8_t> bytes) {
    return fill(user_data, bytes.data(), bytes.size());
  });
}

std::vector<std::pair<std::string, std::string>> inputs_of(const membrane_input* inputs, size_t count) {
  std::vector<std::pair<std::string, std::string>> made;
  for (size_t i = 0; i < count; ++i) made.emplace_back(view(inputs[i].name), view(inputs[i].json));
  return made;
}

membrane::SessionOptions to_cpp(const membrane_session_options* given) {
  const auto options = as_known(given);
  membrane::SessionOptions made;
  if (options.policy != nullptr) made.policy = options.policy->policy;
  for (size_t i = 0; i < options.function_count; ++i) {
    const membrane_guest_function& function = options.functions[i];
    made.functions.push_back({.module = std::string(view(function.module)),
                              .name = std::string(view(function.name)),
                              .signature = std::string(view(function.signature)),
                              .doc = std::string(view(function.doc)),
                              .is_async = function.is_async});
  }
  made.inputs = inputs_of(options.inputs, options.input_count);
  if (options.call != nullptr)
    made.call_many = [call = options.call,
                      data = options.user_data](std::span<const membrane::FunctionCall> calls) {
      return call_back(call, data, calls);
    };
  made.on_stdout = listener_of(options.on_stdout, options.user_data);
  made.on_stderr = listener_of(options.on_stderr, options.user_data);
  if (options.budget != nullptr) made.budget = options.budget->budget;
  const auto sources = as_known(options.sources);
  made.clock = clock_of(sources, options.user_data);
  made.sleep = sleep_of(sources, options.user_data);
  made.entropy = entropy_of(sources, options.user_data);
  made.timezone = view(sources.timezone);
  add_agents(options.agents, options.user_data, made);
  made.isolated = options.isolated;
  for (size_t i = 0; i < options.accepted_missing_wall_count; ++i)
    made.accepted_missing_walls.emplace_back(view(options.accepted_missing_walls[i]));
  return made;
}

membrane::Cell to_cpp(const membrane_cell* given) {
  const auto cell = as_known(given);
  membrane::Cell made{.code = std::string(view(cell.code, cell.code_size)),
                      .name = std::string(view(cell.name))};
  made.is_script = cell.is_script;
  made.only_checks = cell.only_checks;
  for (size_t i = 0; i < cell.argument_count; ++i) made.arguments.emplace_back(view(cell.arguments[i]));
  made.input = view(cell.input, cell.input_size);
  made.inputs = inputs_of(cell.inputs, cell.input_count);
  return made;
}

membrane_session* handle_of(membrane::Expected<membrane::Session> made, membrane_error** error) {
  if (made) return new membrane_session{std::move(*made)};
  give(error, std::move(made).error());
  return nullptr;
}

}  // namespace

membrane_policy* membrane_policy_new_for_languages(void) {
  return guarded<membrane_policy*>(nullptr,
                                   [] { return new membrane_policy{membrane::Policy::for_languages()}; });
}

// -- languages and answers ---------------------------------------------------------------------------

membrane_language* membrane_language_open(const char* name, membrane_listener on_progress, void* user_data,
                                          membrane_error** error) {
  return guarded<membrane_language*>(error, [&]() -> membrane_language* {
    membrane::LanguageOptions options;
    options.on_progress = listener_of(on_progress, user_data);
    auto opened = membrane::Language::open(view(name), options);
    if (opened) return new membrane_language{*std::move(opened)};
    give(error, std::move(opened).error());
    return nullptr;
  });
}
bool membrane_function_call_must_stop(const membrane_function_call* call) {
  const auto* const must_stop = static_cast<const std::function<bool()>*>(call->turn);
  return must_stop != nullptr && *must_stop && (*must_stop)();
}
void membrane_language_free(membrane_language* language) { delete language; }

void membrane_answer_value(membrane_answer* answer, const char* json, size_t size) {
  guarded<bool>(
      nullptr, [&] { return answer->answer = membrane::Answer::value(std::string(view(json, size))), true; });
}
void membrane_answer_error(membrane_answer* answer, const char* type, const char* message) {
  guarded<bool>(nullptr, [&] {
    return answer->answer = membrane::Answer::error(std::string(view(type)), std::string(view(message))),
           true;
  });
}
void membrane_answer_later(membrane_answer* answer) { answer->answer = membrane::Answer::later(); }

// -- sessions ----------------------------------------------------------------------------------------

membrane_session* membrane_session_new(const membrane_language* language,
                                       const membrane_session_options* options, membrane_error** error) {
  return guarded<membrane_session*>(error, [&] {
    return handle_of(membrane::Session::create(language->language, to_cpp(options)), error);
  });
}

membrane_session* membrane_session_load(const membrane_language* language, const uint8_t* bytes, size_t size,
                                        const membrane_session_options* options, membrane_error** error) {
  return guarded<membrane_session*>(error, [&] {
    return handle_of(membrane::Session::load(language->language, {bytes, size}, to_cpp(options)), error);
  });
}

membrane_report* membrane_session_run(membrane_session* session, const membrane_cell* cell) {
  return reported([&] { return session->session.run(to_cpp(cell)); });
}

membrane_report* membrane_session_resume(membrane_session* session, const char* const* values,
                                         const char* const* errors, size_t count) {
  return reported([&] {
    std::vector<membrane::Answer> answers;
    for (size_t i = 0; i < count; ++i) {
      const bool has_failed = errors != nullptr && errors[i] != nullptr;
      const char* const value = values != nullptr ? values[i] : nullptr;
      answers.push_back(has_failed         ? membrane::Answer::error("", std::string(view(errors[i])))
                        : value == nullptr ? membrane::Answer::later()
                                           : membrane::Answer::value(value));
    }
    return session->session.resume(std::move(answers));
  });
}

bool membrane_session_abandon(membrane_session* session, membrane_error** error) {
  return guarded<bool>(error, [&] { return succeeded(session->session.abandon(), error); });
}

membrane_session* membrane_session_fork(membrane_session* session, membrane_error** error) {
  return guarded<membrane_session*>(error, [&] { return handle_of(session->session.fork(), error); });
}

uint8_t* membrane_session_dump(const membrane_session* session, size_t* size, membrane_error** error) {
  return guarded<uint8_t*>(error, [&]() -> uint8_t* { return dumped(session->session.dump(), size, error); });
}

uint8_t* membrane_session_read_file(const membrane_session* session, const char* path, size_t* size,
                                    membrane_error** error) {
  return guarded<uint8_t*>(error, [&]() -> uint8_t* {
    const auto bytes = session->session.read_file(view(path));
    if (bytes) return copied(*bytes, size);
    give(error, bytes.error());
    return nullptr;
  });
}

bool membrane_session_write_file(membrane_session* session, const char* path, const uint8_t* bytes,
                                 size_t size, membrane_error** error) {
  return guarded<bool>(error, [&] {
    const std::string_view content(reinterpret_cast<const char*>(bytes), size);
    return succeeded(session->session.write_file(view(path), content), error);
  });
}

void membrane_session_cancel(membrane_session* session) { session->session.cancel(); }
void membrane_session_free(membrane_session* session) { delete session; }

// -- their reports -----------------------------------------------------------------------------------

size_t membrane_report_waiting_count(const membrane_report* report) {
  return report->report.waits_for.size();
}

const membrane_function_call* membrane_report_waiting(membrane_report* report, size_t index) {
  if (index >= report->report.waits_for.size()) return nullptr;
  const membrane::Report::Waiting& call = report->report.waits_for[index];
  report->waiting = {call.name.c_str(), call.arguments.c_str(), call.keywords.c_str(), call.object.c_str(),
                     nullptr};
  return &report->waiting;
}

const char* membrane_report_form(const membrane_report* report, const char* type, size_t* size) {
  for (const membrane::Report::Part& part : report->report.value)
    if (part.type == view(type)) return sized(part.data, size);
  return nullptr;
}

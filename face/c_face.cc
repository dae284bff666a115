// The C face over the C++ one. Its handles own C++ objects, and no exception crosses it.

#include "face/c_handles.h"
#include "face/convert.h"

using namespace membrane::face;

struct membrane_module {
  membrane::Module module;
};

struct membrane_instance {
  membrane::Instance instance;
};

struct membrane_call {
  membrane::Call call;
  std::vector<membrane::Value> results{};
  std::optional<membrane_error> error{};
  WaitingForC waiting{};
};

struct membrane_host_call {
  membrane::HostCall& call;
  std::string message{};
};

namespace {

// -- values ------------------------------------------------------------------------------------

membrane_value to_c(const membrane::Value& value) {
  membrane_value made{};
  made.type = static_cast<membrane_type>(value.index());
  switch (made.type) {
    case MEMBRANE_I32: made.of.i32 = std::get<int32_t>(value); break;
    case MEMBRANE_I64: made.of.i64 = std::get<int64_t>(value); break;
    case MEMBRANE_F32: made.of.f32 = std::get<float>(value); break;
    case MEMBRANE_F64: made.of.f64 = std::get<double>(value); break;
  }
  return made;
}

membrane::Value to_cpp(const membrane_value& value) {
  switch (value.type) {
    case MEMBRANE_I64: return value.of.i64;
    case MEMBRANE_F32: return value.of.f32;
    case MEMBRANE_F64: return value.of.f64;
    default: return value.of.i32;
  }
}

std::vector<membrane::ValueType> types(const membrane_type* first, size_t count) {
  std::vector<membrane::ValueType> made;
  for (size_t i = 0; i < count; ++i) made.push_back(static_cast<membrane::ValueType>(first[i]));
  return made;
}

// -- host functions ---------------------------------------------------------------------------------

std::expected<std::vector<membrane::Value>, std::string> call_back(membrane_callback function,
                                                                   void* user_data,
                                                                   membrane::HostCall& call) {
  std::vector<membrane_value> arguments;
  for (const membrane::Value& value : call.arguments()) arguments.push_back(to_c(value));
  std::vector<membrane_value> values;
  for (const membrane::ValueType type : call.signature().results)
    values.push_back(to_c(membrane::face::value_of(type, 0)));
  membrane_host_call seen{call};
  if (!function(user_data, &seen, arguments.data(), values.data()))
    return std::unexpected(seen.message.empty() ? "the host function failed" : std::move(seen.message));
  std::vector<membrane::Value> made;
  for (const membrane_value& value : values) made.push_back(to_cpp(value));
  return made;
}

membrane::HostFunction to_cpp(const membrane_host_function& f) {
  membrane::HostFunction made{std::string(view(f.module)),
                              std::string(view(f.name)),
                              {types(f.parameters, f.parameter_count), types(f.results, f.result_count)},
                              {}};
  if (f.call != nullptr)
    made.call = [function = f.call, data = f.user_data](membrane::HostCall& call) {
      return call_back(function, data, call);
    };
  return made;
}

std::function<membrane::HostResults(membrane::HostCall&)> to_cpp(membrane_callback answer, void* user_data) {
  if (answer == nullptr) return {};
  return [=](membrane::HostCall& call) { return call_back(answer, user_data, call); };
}

membrane::HostResults to_cpp(const membrane_value* results, size_t count, const char* error_message) {
  if (error_message != nullptr) return std::unexpected(std::string(error_message));
  std::vector<membrane::Value> values;
  for (size_t i = 0; i < count; ++i) values.push_back(to_cpp(results[i]));
  return values;
}

const membrane_waiting_call* shown(WaitingForC& as, const membrane::Report::Waiting& call) {
  as.call = call;
  as.arguments.clear();
  for (const membrane::Value& value : as.call.values) as.arguments.push_back(to_c(value));
  as.shown = {as.call.name.c_str(), as.arguments.data(), as.arguments.size(), as.call.note.c_str(),
              as.call.note.size()};
  return &as.shown;
}

membrane::InstanceOptions to_cpp(const membrane_instance_options* options) {
  membrane::InstanceOptions made;
  if (options == nullptr) return made;
  for (size_t i = 0; i < options->function_count; ++i)
    made.functions.push_back(to_cpp(options->functions[i]));
  if (options->memory_bytes != 0) made.memory_bytes = options->memory_bytes;
  if (options->start_fuel != 0) made.start_fuel = options->start_fuel;
  return made;
}

membrane_call* handle_of(membrane::Expected<membrane::Call> call, membrane_error** error) {
  if (!call) {
    give(error, std::move(call).error());
    return nullptr;
  }
  auto made = std::make_unique<membrane_call>(std::move(*call));
  made->results = made->call.results();
  return made.release();
}

bool answered(membrane_call& call, const membrane::Expected<membrane::Call::Status>& done,
              membrane_error** error) {
  if (!done) give(error, done.error());
  call.results = call.call.results();
  return done.has_value();
}

std::optional<uint64_t> until(uint64_t freeze_after_fuel) {
  return freeze_after_fuel == UINT64_MAX ? std::nullopt : std::optional(freeze_after_fuel);
}

membrane::Program to_cpp(const membrane_program& p) {
  membrane::Program made;
  made.source = view(p.source, p.source_size);
  if (p.name != nullptr) made.name = p.name;
  made.entry = view(p.entry);
  for (size_t i = 0; i < p.argument_count; ++i) made.arguments.emplace_back(view(p.arguments[i]));
  made.input = view(p.input, p.input_size);
  return made;
}

membrane::Program program_for(const membrane_sandbox& sandbox, const membrane_program& program) {
  membrane::Program made = to_cpp(program);
  made.environment = sandbox.environment;
  return made;
}

}  // namespace

const char* membrane_version(void) { return MEMBRANE_VERSION; }
void membrane_set_memory_ceiling(uint64_t bytes) { membrane::set_memory_ceiling(bytes); }
uint64_t membrane_memory_in_use_bytes(void) { return membrane::memory_in_use_bytes(); }

// -- errors -------------------------------------------------------------------------------------------

const char* membrane_error_code(const membrane_error* error) { return error->failure.code.c_str(); }
const char* membrane_error_message(const membrane_error* error) { return error->failure.message.c_str(); }
const char* membrane_error_hint(const membrane_error* error) { return error->failure.hint.c_str(); }
uint32_t membrane_error_line(const membrane_error* error) { return error->failure.place.line; }
uint32_t membrane_error_column(const membrane_error* error) { return error->failure.place.column; }
uint32_t membrane_error_offset(const membrane_error* error) { return error->failure.place.offset; }
const char* membrane_error_function(const membrane_error* error) {
  return error->failure.place.function.c_str();
}
void membrane_error_free(membrane_error* error) { delete error; }

// -- host calls ---------------------------------------------------------------------------------------

uint8_t* membrane_host_call_memory(membrane_host_call* call, size_t* size) {
  const std::span<uint8_t> memory = call->call.memory();
  if (size != nullptr) *size = memory.size();
  return memory.data();
}

const char* membrane_host_call_read_string(membrane_host_call* call, int32_t address, size_t* size) {
  return guarded<const char*>(nullptr, [&]() -> const char* {
    const auto text = call->call.read_string(address);
    if (size != nullptr) *size = text ? text->size() : 0;
    return text ? text->data() : nullptr;
  });
}

bool membrane_host_call_write_string(membrane_host_call* call, const char* bytes, size_t size,
                                     int32_t* address) {
  return guarded<bool>(nullptr, [&] {
    const auto written = call->call.write_string({bytes, size});
    if (written) *address = *written;
    return written.has_value();
  });
}

bool membrane_host_call_charge(membrane_host_call* call, uint64_t fuel) { return call->call.charge(fuel); }

void membrane_host_call_answer_later(membrane_host_call* call, const char* note, size_t size) {
  guarded<bool>(nullptr, [&] {
    call->call.answer_later(std::string(view(note, size)));
    return true;
  });
}

void membrane_host_call_trap(membrane_host_call* call, const char* message) {
  guarded<bool>(nullptr, [&] {
    call->message = view(message);
    return true;
  });
}

// -- policy and budget ----------------------------------------------------------------------------------

membrane_policy* membrane_policy_new(void) {
  return guarded<membrane_policy*>(nullptr, [] { return new membrane_policy; });
}

membrane_policy* membrane_policy_parse(const char* text, size_t size, const char* name,
                                       membrane_error** error) {
  return guarded<membrane_policy*>(error, [&] {
    return handle_of(membrane::Policy::parse({text, size}, name == nullptr ? "policy.toml" : name), error);
  });
}

membrane_policy* membrane_policy_load(const char* path, membrane_error** error) {
  return guarded<membrane_policy*>(error, [&] { return handle_of(membrane::Policy::load(path), error); });
}

bool membrane_policy_allow(membrane_policy* policy, const char* grant, membrane_error** error) {
  return guarded<bool>(error, [&] { return succeeded(policy->policy.allow(view(grant)), error); });
}

bool membrane_policy_limit(membrane_policy* policy, const char* name, const char* value,
                           membrane_error** error) {
  return guarded<bool>(error,
                       [&] { return succeeded(policy->policy.limit(view(name), view(value)), error); });
}

const char* membrane_policy_explain(membrane_policy* policy) {
  return guarded<const char*>(nullptr, [&] {
    policy->text = policy->policy.explain();
    return policy->text.c_str();
  });
}

void membrane_policy_free(membrane_policy* policy) { delete policy; }

membrane_budget* membrane_budget_new(const membrane_policy* policy) {
  return guarded<membrane_budget*>(nullptr,
                                   [&] { return new membrane_budget{membrane::Budget(policy->policy)}; });
}

uint64_t membrane_budget_fuel_left(const membrane_budget* budget) { return budget->budget.fuel_left(); }
void membrane_budget_free(membrane_budget* budget) { delete budget; }

// -- sandboxes and reports --------------------------------------------------------------------------------

membrane_sandbox* membrane_sandbox_new(const membrane_policy* policy) {
  return guarded<membrane_sandbox*>(nullptr,
                                    [&] { return new membrane_sandbox{membrane::Sandbox(policy->policy)}; });
}

bool membrane_sandbox_define(membrane_sandbox* sandbox, const membrane_host_function* function,
                             membrane_error** error) {
  return guarded<bool>(error, [&] { return succeeded(sandbox->sandbox.define(to_cpp(*function)), error); });
}

void membrane_sandbox_share(membrane_sandbox* sandbox, const membrane_budget* budget) {
  sandbox->sandbox.share(budget->budget);
}

bool membrane_sandbox_set_environment(membrane_sandbox* sandbox, const char* const* variables, size_t count,
                                      membrane_error** error) {
  return guarded<bool>(error, [&] {
    std::vector<std::pair<std::string, std::string>> environment;
    for (size_t i = 0; i < count; ++i) {
      const std::string_view variable = view(variables[i]);
      const size_t equals = variable.find('=');
      if (equals == 0 || equals == std::string_view::npos) {
        give(error, {.code = "invalid_argument",
                     .message = "the variable \"" + std::string(variable) + "\" has no name or no value",
                     .hint = "Write it as NAME=VALUE.",
                     .place = {},
                     .backtrace = {}});
        return false;
      }
      environment.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
    }
    sandbox->environment = std::move(environment);
    return true;
  });
}

membrane_report* membrane_sandbox_run(const membrane_sandbox* sandbox, const membrane_program* program) {
  return reported([&] { return sandbox->sandbox.run(program_for(*sandbox, *program)); });
}

membrane_report* membrane_sandbox_run_until(const membrane_sandbox* sandbox, const membrane_program* program,
                                            uint64_t freeze_after_fuel) {
  return reported([&] { return sandbox->sandbox.run(program_for(*sandbox, *program), freeze_after_fuel); });
}

membrane_report* membrane_sandbox_thaw(const membrane_sandbox* sandbox, const uint8_t* snapshot, size_t size,
                                       uint64_t freeze_after_fuel) {
  return reported([&] { return sandbox->sandbox.thaw({snapshot, size}, until(freeze_after_fuel)); });
}

membrane_report* membrane_sandbox_resume(const membrane_sandbox* sandbox, const uint8_t* snapshot,
                                         size_t size, const membrane_value* results, size_t result_count,
                                         const char* error_message, uint64_t freeze_after_fuel) {
  return reported([&] {
    return sandbox->sandbox.resume({snapshot, size}, to_cpp(results, result_count, error_message),
                                   until(freeze_after_fuel));
  });
}

membrane_report* membrane_sandbox_resume_with(const membrane_sandbox* sandbox, const uint8_t* snapshot,
                                              size_t size, membrane_callback answer, void* user_data,
                                              uint64_t freeze_after_fuel) {
  return reported([&] {
    return sandbox->sandbox.resume({snapshot, size}, to_cpp(answer, user_data), until(freeze_after_fuel));
  });
}

void membrane_sandbox_cancel(membrane_sandbox* sandbox) { sandbox->sandbox.cancel(); }
void membrane_sandbox_free(membrane_sandbox* sandbox) { delete sandbox; }

const char* membrane_report_outcome(const membrane_report* report) {
  return membrane::name_of(report->report.outcome).data();  // literals
}

const membrane_error* membrane_report_error(const membrane_report* report) {
  return report->error ? &*report->error : nullptr;
}

const membrane_waiting_call* membrane_report_waiting_call(membrane_report* report) {
  const auto& waits_for = report->report.waits_for;
  if (waits_for.empty()) return nullptr;
  return guarded<const membrane_waiting_call*>(
      nullptr, [&] { return shown(report->waiting_call, waits_for.front()); });
}

const uint8_t* membrane_report_snapshot(const membrane_report* report, size_t* size) {
  const std::vector<uint8_t>& snapshot = report->report.snapshot;
  if (size != nullptr) *size = snapshot.size();
  return snapshot.empty() ? nullptr : snapshot.data();
}

const char* membrane_report_stdout(const membrane_report* report, size_t* size) {
  return sized(report->report.stdout_text, size);
}

const char* membrane_report_stderr(const membrane_report* report, size_t* size) {
  return sized(report->report.stderr_text, size);
}

const char* membrane_report_result(const membrane_report* report, size_t* size) {
  return sized(report->report.result, size);
}

bool membrane_report_exit_code(const membrane_report* report, int32_t* code) {
  if (!report->report.exit_code) return false;
  *code = *report->report.exit_code;
  return true;
}

const char* membrane_report_answer(const membrane_report* report, size_t* size) {
  if (report->report.answer) return sized(*report->report.answer, size);
  if (size != nullptr) *size = 0;
  return nullptr;
}

size_t membrane_report_value_count(const membrane_report* report) { return report->report.results.size(); }

bool membrane_report_value(const membrane_report* report, size_t index, membrane_value* value) {
  const auto& results = report->report.results;
  if (index >= results.size() || !results[index].value) return false;
  *value = to_c(*results[index].value);
  return true;
}

uint64_t membrane_report_fuel_used(const membrane_report* report) { return report->report.fuel_used; }
uint64_t membrane_report_memory_peak_bytes(const membrane_report* report) {
  return report->report.memory_peak_bytes;
}
size_t membrane_report_host_call_count(const membrane_report* report) {
  return report->report.host_calls.size();
}

const char* membrane_report_json(membrane_report* report) {
  return guarded<const char*>(nullptr, [&] {
    if (report->json.empty()) report->json = report->report.to_json();
    return report->json.c_str();
  });
}

const char* membrane_report_text(membrane_report* report) {
  return guarded<const char*>(nullptr, [&] {
    if (report->text.empty()) report->text = report->report.to_text();
    return report->text.c_str();
  });
}

void membrane_report_free(membrane_report* report) { delete report; }

// -- the engine ---------------------------------------------------------------------------------------------

membrane_module* membrane_module_compile(const char* source, size_t size, membrane_error** error) {
  return guarded<membrane_module*>(error, [&]() -> membrane_module* {
    auto module = membrane::Module::compile(view(source, size));
    if (module) return new membrane_module{std::move(*module)};
    give(error, module.error().front());
    return nullptr;
  });
}

void membrane_module_free(membrane_module* module) { delete module; }

membrane_instance* membrane_instance_new(const membrane_module* module,
                                         const membrane_instance_options* options, membrane_error** error) {
  return guarded<membrane_instance*>(error, [&]() -> membrane_instance* {
    auto instance = membrane::Instance::create(module->module, to_cpp(options));
    if (instance) return new membrane_instance{std::move(*instance)};
    give(error, std::move(instance).error());
    return nullptr;
  });
}

uint8_t* membrane_instance_memory(membrane_instance* instance, size_t* size) {
  const std::span<uint8_t> memory = instance->instance.memory();
  if (size != nullptr) *size = memory.size();
  return memory.data();
}

void membrane_instance_free(membrane_instance* instance) { delete instance; }

membrane_call* membrane_instance_call(membrane_instance* instance, const char* name,
                                      const membrane_value* arguments, size_t argument_count, uint64_t fuel,
                                      membrane_error** error) {
  return guarded<membrane_call*>(error, [&]() -> membrane_call* {
    std::vector<membrane::Value> values;
    for (size_t i = 0; i < argument_count; ++i) values.push_back(to_cpp(arguments[i]));
    return handle_of(instance->instance.call(view(name), values, fuel), error);
  });
}

membrane_call_status membrane_call_get_status(const membrane_call* call) {
  return static_cast<membrane_call_status>(call->call.status());
}

void membrane_call_add_fuel(membrane_call* call, uint64_t fuel) { call->call.add_fuel(fuel); }

membrane_call_status membrane_call_resume(membrane_call* call) {
  guarded<bool>(nullptr, [&] {
    call->call.resume();
    call->results = call->call.results();
    return true;
  });
  return membrane_call_get_status(call);
}

size_t membrane_call_result_count(const membrane_call* call) { return call->results.size(); }

bool membrane_call_result(const membrane_call* call, size_t index, membrane_value* value) {
  if (index >= call->results.size()) return false;
  *value = to_c(call->results[index]);
  return true;
}

const membrane_error* membrane_call_error(membrane_call* call) {
  return guarded<const membrane_error*>(nullptr, [&]() -> const membrane_error* {
    call->error.reset();
    if (call->call.status() == membrane::Call::Status::kReturned) return nullptr;
    return &call->error.emplace(call->call.failure());
  });
}

bool membrane_call_answer(membrane_call* call, const membrane_value* results, size_t result_count,
                          const char* error_message, membrane_error** error) {
  return guarded<bool>(error, [&] {
    return answered(*call, call->call.answer(to_cpp(results, result_count, error_message)), error);
  });
}

bool membrane_call_answer_with(membrane_call* call, membrane_callback answer, void* user_data,
                               membrane_error** error) {
  return guarded<bool>(error,
                       [&] { return answered(*call, call->call.answer(to_cpp(answer, user_data)), error); });
}

const membrane_waiting_call* membrane_call_waiting(membrane_call* call) {
  return guarded<const membrane_waiting_call*>(nullptr, [&]() -> const membrane_waiting_call* {
    const auto waits_for = call->call.waits_for();
    return waits_for ? shown(call->waiting, *waits_for) : nullptr;
  });
}

uint8_t* membrane_call_dump(const membrane_call* call, size_t* size, membrane_error** error) {
  return guarded<uint8_t*>(error, [&] { return dumped(call->call.dump(), size, error); });
}

membrane_call* membrane_call_load(const uint8_t* bytes, size_t size, const membrane_instance_options* options,
                                  uint64_t fuel, membrane_error** error) {
  return guarded<membrane_call*>(
      error, [&] { return handle_of(membrane::Call::load({bytes, size}, to_cpp(options), fuel), error); });
}

membrane_instance* membrane_call_get_instance(const membrane_call* call) {
  return guarded<membrane_instance*>(nullptr, [&] { return new membrane_instance{call->call.instance()}; });
}

void membrane_bytes_free(uint8_t* bytes) { std::free(bytes); }

uint64_t membrane_call_fuel_used(const membrane_call* call) { return call->call.fuel_used(); }
void membrane_call_free(membrane_call* call) { delete call; }

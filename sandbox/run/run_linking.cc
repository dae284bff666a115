// The imports of a run, and its instance.
#include <algorithm>

#include "host/calls/link.h"
#include "host/calls/registry.h"
#include "sandbox/run/replayed_grants.h"
#include "sandbox/run/run.h"
#include "sandbox/run/wasi_calls.h"

namespace membrane::sandbox {
namespace {

// The function that ends the preprocessor's checked calls: it is not a capability, and not in the report.
const wasm::FuncType& fail_type() {
  static const wasm::FuncType type{{wasm::ValType::kI32, wasm::ValType::kI32, wasm::ValType::kI32}, {}};
  return type;
}

}  // namespace

const OwnFunction* Run::find_own(const wasm::Import& import) const {
  if (import.kind != wasm::ExternKind::kFunc) return nullptr;
  for (const OwnFunction& function : options_.functions)
    if (function.module == import.module && function.name == import.name) return &function;
  return nullptr;
}

bool Run::link() {
  const auto is_own = [this](const wasm::Import& import) {
    return find_own(import) != nullptr || find_wasi(import) != nullptr;
  };
  if (auto linkage = host::link_imports(compiled_->module(), is_own); !linkage) {
    if (frozen_ != nullptr)
      for (Diagnostic& d : linkage.error())
        d.hint = "it was there when the program was frozen: define it before thawing";
    return stop_invalid(linkage.error());
  }
  engine::InstanceLimits limits{
      limits_.memory_bytes, static_cast<uint32_t>(std::min<uint64_t>(limits_.table_elements, UINT32_MAX))};
  limits.heap_bytes = limits_.memory_bytes;
  const auto is_wasi = [](const wasm::Import& import) { return find_wasi(import) != nullptr; };
  const bool has_wasi = std::ranges::any_of(compiled_->module().imports, is_wasi);
  reads_ahead_ =
      options_.read_input && !options_.input_is_ambient && (!has_wasi || options_.freeze_after_fuel);
  if (reads_ahead_ && !read_whole_input()) return false;
  if (has_wasi) {
    if (auto same = check_replayed_grants(world(), options_.policy); !same)
      return stop(Outcome::kInvalid, same.error());
    auto made = make_wasi();
    if (!made) return stop(Outcome::kInvalid, made.error());
    wasi_ = std::move(*made);
  }
  return instantiate(limits);
}

// With the given config, or from the frozen state.
Result<std::unique_ptr<wasi::System>> Run::make_wasi() {
  wasi::Config config;
  config.policy = &options_.policy;
  config.world = context_.wasi_world([this] { return must_stop(); });
  config.world.stdin_comes_first = true;
  if (frozen_ != nullptr) {
    const std::string& bytes = frozen_->state.wasi;
    MEMBRANE_ASSIGN(auto thawed,
                    wasi::System::thaw({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()},
                                       std::move(config)));
    std::string().swap(frozen_->state.wasi);  // frees it: it may be as large as all of the program's files
    if (!streams_input()) thawed->close_stdin();
    return thawed;
  }
  config.arguments.push_back(program_.name);
  config.arguments.insert(config.arguments.end(), program_.arguments.begin(), program_.arguments.end());
  config.environment = program_.environment;
  config.stdin_text = output().input;
  config.stdin_waits = streams_input();
  return wasi::System::create(std::move(config));
}

bool Run::instantiate(const engine::InstanceLimits& limits) {
  const auto resolver =
      resolver_of(store_, [this](const wasm::Import& import) { return find_import(import); });
  auto made = frozen_ == nullptr ? store_.instantiate(compiled_, resolver, limits)
                                 : frozen_->snapshot.instantiate(store_, resolver, limits);
  if (!made) return stop_link(made.error());
  instance_ = *made;
  guest_.emplace(*instance_, output());
  dispatcher_.emplace(*guest_, world().broker());
  context_.bound_memory_by(*guest_);
  if (frozen_ == nullptr) return true;
  guest_->set_heap_next(frozen_->state.heap_next);
  dispatcher_->go_on_from(frozen_->state.history);
  if (wasi_ == nullptr || wasi_->account_to(*guest_)) return true;
  return stop(
      Outcome::kOutOfMemory, "exhausted",
      "the memory limit has no room for the program's data in the host: its files, listings and answers",
      "Raise the memory limit to what it was when the program was frozen.");
}

std::optional<HostImport> Run::find_import(const wasm::Import& import) {
  if (const OwnFunction* const own = find_own(import))
    return HostImport{own->type, [this, own](engine::HostCall& call) { return call_own(*own, call); }};
  if (const wasi::Function* const function = find_wasi(import))
    return HostImport{function->type,
                      [this, function](engine::HostCall& call) { return call_wasi(*function, call); }};
  if (import.module == "membrane" && import.name == "fail")
    return HostImport{fail_type(), [this](engine::HostCall& call) { return fail_checked_call(call); }};
  if (const host::FunctionSpec* const function = host::find_function(import.module, import.name))
    return HostImport{host::wasm_signature_of(*function),
                      [this, function](engine::HostCall& call) { return call_host(*function, call); }};
  return std::nullopt;
}

bool Run::stop_link(const engine::LinkError& error) {
  switch (error.kind) {
    case engine::LinkError::Kind::kLimit: return stop(Outcome::kOutOfMemory, error.error);
    case engine::LinkError::Kind::kTrap:
      return stop(Outcome::kTrapped, std::string(name_of(error.trap)), error.error.message, error.error.hint);
    default: return stop(Outcome::kInvalid, error.error);
  }
}

}  // namespace membrane::sandbox

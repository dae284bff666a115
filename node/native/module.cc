// The engine in this process, for src/native.ts: languages and sessions of include/membrane/session.hpp, with texts for values.

#include <dlfcn.h>
#include <napi.h>

#include <membrane/session.hpp>

#include "agents.h"
#include "loop.h"
#include "session.h"
#include "sources.h"
#include "threads.h"
#include "turn.h"
#include "values.h"

namespace membrane::node {

namespace {

// -- options --------------------------------------------------------------------------------------------------------

GuestFunction function_of(const Napi::Value& given) {
  const auto of = given.As<Napi::Object>();
  return {.module = text_of(of.Get("module")),
          .name = text_of(of.Get("name")),
          .signature = text_of(of.Get("signature")),
          .doc = text_of(of.Get("doc")),
          .is_async = of.Get("isAsync").ToBoolean()};
}

GuestType type_of(const Napi::Value& given) {
  const auto of = given.As<Napi::Object>();
  return {.name = text_of(of.Get("name")),
          .doc = text_of(of.Get("doc")),
          .methods = all_of(of.Get("methods"), function_of),
          .attributes = all_of(of.Get("attributes"), text_of)};
}

Policy policy_of(Napi::Env env, const Napi::Object& given) {
  Policy made = Policy::for_languages();
  if (given.Get("text").IsString())
    made = value_or_throw(
        env, Policy::parse(text_of(given.Get("text")), text_of(given.Get("name")), Policy::for_languages()));
  for (const std::string& grant : all_of(given.Get("allow"), text_of)) value_or_throw(env, made.allow(grant));
  for (const auto& [name, value] : all_of(given.Get("limits"), pair_of))
    value_or_throw(env, made.limit(name, value));
  return made;
}

SessionOptions options_of(Napi::Env env, const Napi::Value& given) {
  const auto of = given.As<Napi::Object>();
  SessionOptions options;
  options.policy = policy_of(env, of.Get("policy").As<Napi::Object>());
  options.functions = all_of(of.Get("functions"), function_of);
  options.types = all_of(of.Get("types"), type_of);
  options.modules = all_of(of.Get("modules"), pair_of);
  options.inputs = all_of(of.Get("inputs"), pair_of);
  // What is sealed has no functions; else also names that nobody has defined are asked.
  if (!of.Get("agents").As<Napi::Object>().Get("receipts").IsExternal())
    options.call_many = [](std::span<const FunctionCall> calls) { return Turn::answer(calls); };
  const auto host = of.Get("host").As<Napi::Object>();
  if (host.Get("onStdout").IsFunction())
    options.on_stdout = [](std::string_view text) { Turn::hear("onStdout", text); };
  if (host.Get("onStderr").IsFunction())
    options.on_stderr = [](std::string_view text) { Turn::hear("onStderr", text); };
  options.isolated = of.Get("isolated").ToBoolean();
  options.accepted_missing_walls = all_of(of.Get("acceptedMissingWalls"), text_of);
  add_agents(of.Get("agents").As<Napi::Object>(), options);
  add_sources(of.Get("sources").As<Napi::Object>(), options);
  return options;
}

// -- what the module has --------------------------------------------------------------------------------------------

// (name, onProgress?): Promise<language>
Napi::Value open_language(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto loop = *env.GetInstanceData<std::shared_ptr<Loop>>();
  const auto promise = Napi::Promise::Deferred::New(env);
  std::string name = text_of(info[0]);  // throws for what is no text: before anything is expected
  // On the loop's thread it goes, too; it stays where the environment is over before.
  auto* const listener = info[1].IsFunction()
                             ? new Napi::FunctionReference(Napi::Persistent(info[1].As<Napi::Function>()))
                             : nullptr;
  LanguageOptions options;
  if (listener != nullptr)
    options.on_progress = [loop, listener](std::string_view step) {
      loop->post([listener, step = std::string(step)](Napi::Env env) {
        listener->Call({Napi::String::New(env, step)});
      });
    };
  loop->expect();
  run_on_thread([loop, promise, listener, options, name = std::move(name)] {
    loop->post([loop, promise, listener, opened = Language::open(name, options)](Napi::Env env) {
      delete listener;
      loop->expect_no_more();
      if (!opened) return promise.Reject(error_of(env, opened.error()).Value());
      promise.Resolve(Napi::External<Language>::New(env, new Language(*opened),
                                                    [](Napi::BasicEnv, Language* made) { delete made; }));
    });
  });
  return promise.Promise();
}

// (name): language. The loop stands still until it is open.
Napi::Value open_language_sync(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto opened = value_or_throw(env, Language::open(text_of(info[0])));
  return Napi::External<Language>::New(env, new Language(std::move(opened)),
                                       [](Napi::BasicEnv, Language* made) { delete made; });
}

std::chrono::milliseconds wall_of(const Policy& policy) {
  return std::chrono::milliseconds(Budget(policy).wall_left_ms());
}

// (language): its name, which it may be opened by others of
Napi::Value name_of(const Napi::CallbackInfo& info) {
  return Napi::String::New(info.Env(), info[0].As<Napi::External<Language>>().Data()->name());
}

// (language, options): session
Napi::Value create(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Language& language = *info[0].As<Napi::External<Language>>().Data();
  SessionOptions options = options_of(env, info[1]);
  const auto wall = wall_of(options.policy);
  auto made = value_or_throw(env, Session::create(language, std::move(options)));
  return SessionWrap::make(env, std::move(made), wall, info[1].As<Napi::Object>().Get("host"));
}

// (language, options, bytes): session
Napi::Value load(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Language& language = *info[0].As<Napi::External<Language>>().Data();
  const auto bytes = info[2].As<Napi::Uint8Array>();
  SessionOptions options = options_of(env, info[1]);
  const auto wall = wall_of(options.policy);
  auto made =
      value_or_throw(env, Session::load(language, {bytes.Data(), bytes.ByteLength()}, std::move(options)));
  return SessionWrap::make(env, std::move(made), wall, info[1].As<Napi::Object>().Get("host"));
}

// Node unloads an addon with the last environment that has it, as a worker thread's; threads of turns and the engine's handler of faults are
// still there then.
void stay_loaded() {
  Dl_info here;
  if (dladdr(reinterpret_cast<void*>(&stay_loaded), &here) != 0)
    dlopen(here.dli_fname, RTLD_NOW | RTLD_NODELETE);
}

Napi::Object begin(Napi::Env env, Napi::Object exports) {
  stay_loaded();
  const auto loop = Loop::create(env);
  loop->session_class = Napi::Persistent(SessionWrap::define(env));
  env.SetInstanceData(new std::shared_ptr<Loop>(loop));
  exports.Set("version", Napi::String::New(env, std::string(version())));
  exports.Set("openLanguage", Napi::Function::New<open_language>(env));
  exports.Set("openLanguageSync", Napi::Function::New<open_language_sync>(env));
  exports.Set("nameOf", Napi::Function::New<name_of>(env));
  exports.Set("create", Napi::Function::New<create>(env));
  define_agents(env, exports);
  exports.Set("load", Napi::Function::New<load>(env));
  return exports;
}

}  // namespace

}  // namespace membrane::node

static Napi::Object membrane_begin(Napi::Env env, Napi::Object exports) {
  return membrane::node::begin(env, exports);
}
NODE_API_MODULE(membrane, membrane_begin)

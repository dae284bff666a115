// Our side of `tools/bench peers`: does what a line of standard input asks, and answers with seconds of CPU.
//
//   membrane_peer interpreter|compiler|auto|native
//
//   tiny FILE TIMES        binary to result of run(), so often          -> ok SECONDS-OF-ONE
//   text FILE TIMES        the same from the text format
//   warm FILE TIMES        instance and call of a module that is compiled already
//   compute NAME N CHECKSUM DIRECTORY   run(N) of DIRECTORY/NAME.wasm   -> ok SECONDS
//   compile FILE NUMBER    of the whole module, made unlike the last by a custom section with the number
//                                                    -> ok SECONDS DECODE VALIDATE CODE CODE-BYTES
//   cached FILE NUMBER DIRECTORY        the same, when its code is in the cache already  -> ok SECONDS
//
// What cannot be done is answered with `no` and a reason. The other engines' peers speak the same.
#include <time.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>

#include "base/leb128.h"
#include "bench/programs.h"
#include "engine/execution/execution.h"
#include "engine/execution/module.h"
#include "engine/native/runtime.h"
#include "wasm/binary.h"
#include "wasm/text/parser.h"

namespace membrane::bench {
namespace {

constexpr uint64_t kFuel = 1'000'000'000'000;

double now() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

std::vector<uint8_t> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void answer(std::initializer_list<double> seconds) {
  std::printf("ok");
  for (const double s : seconds) std::printf(" %.9f", s);
  std::printf("\n");
}
void refuse(const std::string& why) { std::printf("no %s\n", why.c_str()); }

using Compiled = std::shared_ptr<engine::CompiledModule>;

// The bits of what run() returns.
Result<uint64_t> call(Compiled module, std::span<const engine::Value> arguments) {
  const engine::Resolver no_imports = [](const wasm::Module&, const wasm::Import&) { return std::nullopt; };
  auto instance = engine::Instance::create(std::move(module), no_imports, {});
  if (!instance) return std::unexpected(instance.error().error);
  engine::Execution execution((engine::ExecutionLimits()));
  MEMBRANE_TRY(execution.start((*instance)->find_function("run"), arguments));
  execution.add_fuel(kFuel);
  if (execution.resume() != engine::RunState::kFinished)
    return fail(ErrorCode::kInternal, "run() did not finish");
  return execution.results()[0].bits;
}

template <typename Parsed>  // std::expected<wasm::Module, …>
Compiled compiled(Parsed parsed, engine::Tier tier) {
  if (!parsed) return nullptr;
  auto made = engine::compile_module(std::move(*parsed), {}, tier);
  return made ? *made : nullptr;
}

// `once` says whether it got 4.
template <typename F>
void repeat(int times, F&& once) {
  const double begin = now();
  for (int i = 0; i < times; ++i)
    if (!once()) return refuse("the result is not 4");
  answer({(now() - begin) / times});
}

void small(const std::string& task, std::istream& words, engine::Tier tier) {
  std::string path;
  int times = 0;
  words >> path >> times;
  const std::vector<uint8_t> bytes = read_file(path);
  if (task == "text") {
    const std::string text(bytes.begin(), bytes.end());
    return repeat(times, [&] { return call(compiled(wasm::parse_text(text), tier), {}) == 4u; });
  }
  if (task == "tiny")
    return repeat(times, [&] { return call(compiled(wasm::decode(bytes), tier), {}) == 4u; });
  const Compiled module = compiled(wasm::decode(bytes), tier);
  repeat(times, [&] { return call(module, {}) == 4u; });
}

void compute(std::istream& words, std::optional<engine::Tier> tier) {
  std::string name, directory;
  int32_t n = 0;
  uint64_t checksum = 0;
  words >> name >> n >> std::hex >> checksum >> directory;
  double seconds = 0;
  if (!tier) {
    const auto program = std::ranges::find(kPrograms, name, &Program::name);
    const double begin = now();
    const bool is_right = program != kPrograms.end() && program->native(n) == checksum;
    seconds = now() - begin;
    return is_right ? answer({seconds}) : refuse("wrong checksum");
  }
  const std::string file = directory + "/" + name + ".wasm";
  const Compiled module = compiled(wasm::decode(read_file(file)), *tier);
  if (module == nullptr) return refuse("cannot be compiled");
  const engine::Value argument = engine::Value::i32(static_cast<uint32_t>(n));
  const double begin = now();
  const auto result = call(module, {&argument, 1});
  seconds = now() - begin;
  return result == checksum ? answer({seconds}) : refuse("wrong checksum");
}

// The module with a custom section of its own, so that it is like no other.
std::vector<uint8_t> read_module(const std::string& path, uint32_t number) {
  std::vector<uint8_t> bytes = read_file(path);
  const uint8_t section[] = {0,
                             6,
                             1,
                             'n',
                             static_cast<uint8_t>(number),
                             static_cast<uint8_t>(number >> 8),
                             static_cast<uint8_t>(number >> 16),
                             0};
  bytes.insert(bytes.end(), std::begin(section), std::end(section));
  return bytes;
}

void compile(std::istream& words, engine::Tier tier) {
  std::string path;
  uint32_t number = 0;
  words >> path >> number;
  std::vector<uint8_t> bytes = read_module(path, number);
  const double begin = now();
  auto module = wasm::decode(std::move(bytes));
  if (!module) return refuse(module.error().message);
  const double decoded = now();
  auto made = engine::compile_module(std::move(*module), {}, tier);
  if (!made) return refuse(made.error().message);
  const double end = now();
  answer({end - begin, decoded - begin, end - decoded, static_cast<double>((*made)->native_code_bytes())});
}

void find_cached(std::istream& words) {
  std::string path, directory;
  uint32_t number = 0;
  words >> path >> number >> directory;
  const std::vector<uint8_t> bytes = read_module(path, number);
  const auto cache = engine::native::CodeCache::open(directory);
  if (!cache) return refuse(cache.error().message);
  const auto make = [&] {
    auto module = wasm::decode(bytes);
    return module && engine::compile_module(std::move(*module), {}, engine::Tier::kCompiler, &*cache);
  };
  if (!make()) return refuse("cannot be compiled");
  const double begin = now();
  if (!make()) return refuse("cannot be compiled");
  answer({now() - begin});
}

void serve(std::optional<engine::Tier> tier) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string task;
    words >> task;
    if (task == "compute") compute(words, tier);
    else if (tier && task == "compile") compile(words, *tier);
    else if (tier == engine::Tier::kCompiler && task == "cached") find_cached(words);
    else if (tier && (task == "tiny" || task == "text" || task == "warm")) small(task, words, *tier);
    else refuse("such task");
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace membrane::bench

int main(int argc, char** argv) {
  const std::string_view who = argc == 2 ? argv[1] : "";
  const auto tier = membrane::engine::find_tier(who);
  if (!tier && who != "native") {
    std::fprintf(stderr, "usage: membrane_peer interpreter|compiler|auto|native\n");
    return 2;
  }
  membrane::bench::serve(tier);
}

// The cost of masking a secret in a response: an ordinary one, and adversarial ones.
#include <benchmark/benchmark.h>

#include <string>

#include "host/egress/secret_mask.h"

namespace membrane::host {
namespace {

constexpr size_t kBytes = 256 << 10;

void hide(benchmark::State& state, std::string_view piece, const std::string& secret) {
  std::string body;
  while (body.size() < kBytes) body += piece;
  SecretMask mask({secret});
  for (auto _ : state) {
    std::string text = body;
    benchmark::DoNotOptimize(mask.apply(text));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(body.size()));
}

const std::string kKey = "sk-proj-4f9Xk2mQ7vLr8TzNwB3yHcJd";

BENCHMARK_CAPTURE(hide, prose, "The quick brown fox jumps over the lazy dog, and then it sleeps.\n", kKey);
BENCHMARK_CAPTURE(hide, json,
                  R"({"id": 1234567, "name": "a \"name\"", "url": "https:\/\/example.org\/a?b=c%20d"}, )",
                  kKey);
BENCHMARK_CAPTURE(hide, base64, "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4", kKey);
BENCHMARK_CAPTURE(hide, base64_of_base64, "YVZCT1J3MEtHZ29BQUFBTlNVaEVVZ0FBQUFVQUFBQUZDQVlBQUFDTmJ5Ymw",
                  kKey);
BENCHMARK_CAPTURE(hide, hex_of_base64, "59565a43543149334d4574485a3239425155464254", kKey);
BENCHMARK_CAPTURE(hide, backslashes, "\\", kKey);
BENCHMARK_CAPTURE(hide, base64_of_backslashes, "XFxc", kKey);
BENCHMARK_CAPTURE(hide, hex_of_backslashes, "5c", kKey);
BENCHMARK_CAPTURE(hide, percents, "%25", kKey);
BENCHMARK_CAPTURE(hide, percents_of_percents, "%2525", kKey);
BENCHMARK_CAPTURE(hide, entities, "&#38;", kKey);
BENCHMARK_CAPTURE(hide, units, "\\u005c", kKey);
BENCHMARK_CAPTURE(hide, utf8_of_latin1, "\xC3\x83\xC2\x83", kKey);
BENCHMARK_CAPTURE(hide, the_secret, kKey, kKey);
BENCHMARK_CAPTURE(hide, almost_the_secret, kKey.substr(1), kKey);
BENCHMARK_CAPTURE(hide, almost_a_long_one, std::string(1'000, 'a'), std::string(1'000, 'a') + "b");
BENCHMARK_CAPTURE(hide, almost_a_long_one_from_its_end, std::string(1'000, 'a'),
                  "b" + std::string(1'000, 'a'));

}  // namespace
}  // namespace membrane::host

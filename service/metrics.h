// The service's metrics in the format of Prometheus (GET /metrics). Labels come from bounded sets: templates,
// outcomes, names and errors of host calls; never a tenant, sandbox, address or word of a program.
//
// Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "sandbox/report.h"
#include "service/sandboxes.h"
#include "service/watcher.h"

namespace membrane::service {

// A histogram of durations, with bounds from 50 µs to 100 s.
class Histogram {
 public:
  static constexpr std::array<uint64_t, 20> kBoundsUs = {
      50,        100,       250,        500,        1'000,      2'500,      5'000,
      10'000,    25'000,    50'000,     100'000,    250'000,    500'000,    1'000'000,
      2'500'000, 5'000'000, 10'000'000, 25'000'000, 50'000'000, 100'000'000};
  void add(uint64_t us);
  // Writes `name`_bucket, _sum and _count, in seconds; `labels` are already formatted, "" for none.
  void render(std::string& to, std::string_view name, const std::string& labels) const;

 private:
  std::array<uint64_t, kBoundsUs.size() + 1> counts_ = {};
  uint64_t sum_us_ = 0;
};

class Metrics {
 public:
  static constexpr size_t kMostSeries = 200;  // per name; further ones are counted under the label "other"

  void created(const std::string& template_name, uint64_t took_us);
  void exec_ended(const ExecFacts& facts, const sandbox::Report& report, uint64_t egress_bytes);
  // An HTTP answer.
  void answered(int status, uint64_t took_us);

  // The text, with the current values.
  [[nodiscard]] std::string render(const Sandboxes::Counts& counts) const;

 private:
  using Labels = std::pair<std::string, std::string>;  // the values of two labels; "" if there is only one
  template <typename T>
  static T& series(std::map<Labels, T>& all, Labels labels);

  mutable std::mutex mutex_;  // guards what follows
  std::map<Labels, Histogram> create_, exec_, host_calls_;
  Histogram queued_, requests_;
  std::map<Labels, uint64_t> outcomes_, denials_, statuses_, held_back_;
  uint64_t fuel_ = 0, egress_bytes_ = 0;
};

}  // namespace membrane::service

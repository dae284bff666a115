// A disk in memory that fails at the call that a test names, and that loses power: unsynced data is then
// there, partly there, or missing, as the seed decides.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>

#include "service/durable_files.h"

namespace membrane::service {

class SimulatedDisk final : public Disk {
 public:
  explicit SimulatedDisk(uint64_t seed) : random_(seed) {}

  // Calls that change or sync something are counted from 0.
  [[nodiscard]] uint64_t calls() const { return calls_; }
  // Makes that call fail, with a partial effect or none.
  void fail_at(uint64_t call) { fail_at_ = call; }
  // From that call on, all calls fail without effect: the machine is off.
  void lose_power_at(uint64_t call) { power_until_ = call; }
  // The machine is on again, with what the disk has kept.
  void restart();
  // Flips one bit of it.
  void damage(const std::string& path);

  Status write(const std::string& path, std::string_view bytes) override;
  Status append(const std::string& path, std::string_view bytes) override;
  Status truncate(const std::string& path, uint64_t size_bytes) override;
  Result<std::string> read(const std::string& path, uint64_t most_bytes) override;
  Result<uint64_t> size(const std::string& path) override;
  Result<std::string> read_end(const std::string& path, uint64_t most_bytes) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status make_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;
  Status sync_file(const std::string& path) override;
  Status sync_directory(const std::string& path) override;

 private:
  struct File {
    std::string bytes, synced;
  };
  using Names = std::map<std::string, std::shared_ptr<File>>;

  // False: the call fails. `partly`: it still has an effect.
  bool begin(bool* partly = nullptr);
  bool coin() { return (random_() & 1) != 0; }
  static std::unexpected<Error> failed() { return fail(ErrorCode::kUnavailable, "the disk failed"); }
  static std::unexpected<Error> missing(const std::string& path) {
    return fail(ErrorCode::kNotFound, "there is no " + path);
  }
  // The bytes that reached the disk.
  std::string survived(const File& file);

  std::mt19937_64 random_;
  uint64_t calls_ = 0, fail_at_ = ~uint64_t{0}, power_until_ = ~uint64_t{0};
  Names names_, synced_names_;
  std::set<std::string> directories_{""}, synced_directories_{""};
};

}  // namespace membrane::service

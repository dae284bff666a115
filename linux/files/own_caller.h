// The caller of files that the kernel opens for itself: the superuser, of no process, without memory or a terminal.
//
// Threads: as the file's.
#pragma once

#include <cerrno>

#include "linux/files/file.h"

namespace membrane::linux {

class OwnCaller final : public Caller {
 public:
  [[nodiscard]] const Credentials& credentials() const override { return superuser_; }
  [[nodiscard]] int process_id() const override { return 0; }
  [[nodiscard]] int process_group() const override { return 0; }
  [[nodiscard]] int session() const override { return 0; }
  Done read_memory(uint64_t, std::span<std::byte>) override { return err(EFAULT); }
  Done write_memory(uint64_t, std::span<const std::byte>) override { return err(EFAULT); }
  void signal_group(int, int) override {}
  void signal_self(int) override {}
  bool ignores(int) override { return true; }
  bool is_orphaned() override { return false; }

 private:
  const Credentials superuser_;
};

}  // namespace membrane::linux

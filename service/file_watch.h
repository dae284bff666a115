// Changes in a directory of a sandbox, as server-sent events: `created`, `changed` and `removed`, each with
// the file's path, type and size. The directory is compared after each operation on the guest, so a file that
// one exec created and removed again is not reported.
//
// Threads: any.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "service/held_bytes.h"
#include "service/http.h"
#include "wasi/owner_files.h"

namespace membrane::service {

// "file", "directory", "link", "other"
std::string_view name_of_type(wasi::FileType type);

class FileWatch final : public BodySource {
 public:
  // `held` counts what it keeps in memory, and it ends when there is no room.
  FileWatch(std::string of_context, std::string of_path, HeldBytes::Hold held = {})
      : context(std::move(of_context)), path(std::move(of_path)), held_(std::move(held)) {}

  const std::string context;
  const std::string path;  // of the directory

  // -- for who holds the guest
  // Passes everything that is below the directory now. The first time it is only recorded.
  void look(const std::vector<wasi::FileFact>& facts);
  // Nothing more comes.
  void end();
  [[nodiscard]] bool is_over() const;

  // -- for the reader
  Piece next(size_t most_bytes, std::function<void()> wake) override;
  [[nodiscard]] std::string keep_alive() const override { return ": nothing yet\n\n"; }
  void abandon() override { end(); }

 private:
  static constexpr size_t kMostWaitingBytes = 4u << 20;
  struct Known {
    wasi::FileType type = wasi::FileType::kUnknown;
    uint64_t size_bytes = 0, modified_ns = 0;
    friend bool operator==(const Known&, const Known&) = default;
  };
  void tell(std::string_view event, const std::string& path, const Known& known);
  // Under the mutex: false if there is no room for what it keeps now.
  bool count();

  mutable std::mutex mutex_;  // guards what follows
  bool has_looked_ = false;
  std::map<std::string, Known, std::less<>> known_;
  uint64_t number_ = 0;
  std::string waiting_;  // unread events
  bool is_over_ = false;
  std::function<void()> wake_;
  HeldBytes::Hold held_;
};

}  // namespace membrane::service

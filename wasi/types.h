// The numbers of WASI preview 1, as they appear in a program's memory and arguments (the witx files typenames and
// wasi_snapshot_preview1).
//
// Threads: constants and pure functions.
#pragma once

#include <cstdint>
#include <expected>
#include <string_view>

namespace membrane::wasi {

enum class Errno : uint16_t {
#define ERRNO(id, name, number) id = number,
#include "wasi/errnos.def"
#undef ERRNO
};
std::string_view name_of(Errno code);  // "ENOENT"; "EUNKNOWN" for an unknown number

// The result of a step of a call, or the errno for the program.
template <typename T>
using Answer = std::expected<T, Errno>;
using Done = std::expected<void, Errno>;
[[nodiscard]] inline std::unexpected<Errno> fail(Errno code) { return std::unexpected(code); }

using Rights = uint64_t;
namespace right {
#define RIGHT(id, bit, kinds) inline constexpr Rights id = Rights{1} << bit;
#include "wasi/rights.def"
#undef RIGHT
}  // namespace right
inline constexpr Rights kFileRights = 0
#define RIGHT(id, bit, kinds) | ((kinds)[0] == 'F' ? Rights{1} << (bit) : 0)
#include "wasi/rights.def"
#undef RIGHT
    ;
inline constexpr Rights kDirectoryRights = 0
#define RIGHT(id, bit, kinds) | ((kinds)[1] == 'D' ? Rights{1} << (bit) : 0)
#include "wasi/rights.def"
#undef RIGHT
    ;
inline constexpr Rights kCharacterRights = 0
#define RIGHT(id, bit, kinds) | ((kinds)[2] == 'C' ? Rights{1} << (bit) : 0)
#include "wasi/rights.def"
#undef RIGHT
    ;
inline constexpr Rights kAllRights = kFileRights | kDirectoryRights | kCharacterRights;

enum class FileType : uint8_t {
  kUnknown = 0,
  kBlockDevice = 1,
  kCharacterDevice = 2,
  kDirectory = 3,
  kRegularFile = 4,
  kSocketDgram = 5,
  kSocketStream = 6,
  kSymbolicLink = 7,
};

namespace fdflag {
inline constexpr uint16_t kAppend = 1, kDsync = 2, kNonblock = 4, kRsync = 8, kSync = 16, kAll = 31;
}
namespace oflag {
inline constexpr uint16_t kCreat = 1, kDirectory = 2, kExcl = 4, kTrunc = 8, kAll = 15;
}
namespace fstflag {
inline constexpr uint16_t kAtim = 1, kAtimNow = 2, kMtim = 4, kMtimNow = 8, kAll = 15;
}
inline constexpr uint32_t kSymlinkFollow = 1;                  // lookupflags
enum class Whence : uint8_t { kSet = 0, kCur = 1, kEnd = 2 };  // in wasi_unstable kEnd is 1 and kSet is 2
inline constexpr uint32_t kAdviceCount = 6;

enum class ClockId : uint32_t { kRealtime = 0, kMonotonic = 1, kProcessCpu = 2, kThreadCpu = 3 };

// The result of fd_filestat_get and path_filestat_get. Times in ns since 1970.
struct FileStat {
  static constexpr uint32_t kBytes = 64;
  static constexpr uint32_t kUnstableBytes = 56;
  uint64_t device = 0;
  uint64_t inode = 0;
  FileType type = FileType::kUnknown;
  uint64_t links = 1;
  uint64_t size = 0;
  uint64_t accessed_ns = 0, modified_ns = 0, changed_ns = 0;
};

inline constexpr uint32_t kFdStatBytes = 24;
inline constexpr uint32_t kDirentBytes = 24;
inline constexpr uint32_t kPrestatBytes = 8;
inline constexpr uint32_t kIovecBytes = 8;
inline constexpr uint32_t kSubscriptionBytes = 48;
inline constexpr uint32_t kUnstableSubscriptionBytes = 56;
inline constexpr uint32_t kEventBytes = 32;

// Bounds on a single call.
inline constexpr uint32_t kMaxIovecs = 1'024;
inline constexpr uint32_t kMaxSubscriptions = 4'096;
inline constexpr uint32_t kMaxPathBytes = 4'096;
inline constexpr uint32_t kMaxNameBytes = 255;
inline constexpr uint32_t kMaxDescriptors = 1'024;

}  // namespace membrane::wasi

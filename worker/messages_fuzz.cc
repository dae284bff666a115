// A hostile worker's answers to its supervisor's commands: each answer is parsed completely or refused, and a
// parsed one is written back as the same bytes. answerer_fuzz covers its requests.
//
// The first byte selects the answer.

#include "worker/messages.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace membrane::worker {
namespace {

template <typename T>
void read_and_write(std::string_view bytes) {
  Reader in(bytes);
  const T value = in.get<T>();
  if (in.is_done() && bytes_of(value) != bytes) std::abort();
}

using Bytes = std::vector<uint8_t>;
constexpr void (*kAnswers[])(std::string_view) = {
    read_and_write<Status>,
    read_and_write<Result<int32_t>>,
    read_and_write<Result<Bytes>>,
    read_and_write<sandbox::Report>,
    read_and_write<TurnEnd>,
    read_and_write<std::vector<std::string>>,
    read_and_write<std::vector<sandbox::ReportFile>>,
    read_and_write<host::HostResult<std::string>>,
    read_and_write<host::HostResult<void>>,
    read_and_write<host::HostResult<std::vector<wasi::FileFact>>>,
    read_and_write<std::optional<uint64_t>>,
    read_and_write<std::pair<std::string, Status>>};  // the hello of program.h

}  // namespace
}  // namespace membrane::worker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  membrane::worker::kAnswers[data[0] % std::size(membrane::worker::kAnswers)](text.substr(1));
  return 0;
}

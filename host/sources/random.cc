#include "host/sources/random.h"

#include <sys/random.h>

#include <cerrno>

namespace membrane::host {

RandomSource::RandomSource(const policy::RandomGrant& grant, const Sources* sources)
    : real_(grant.real),
      sources_(sources),
      stream_(sources != nullptr && sources->key ? *sources->key : RandomStream::key_of(grant.seed)) {}

HostResult<std::string> RandomSource::bytes(uint32_t count) {
  if (count > kMaxBytes)
    return refuse(Errno::kTooBig, "more than 1 MiB of random bytes was asked for at once");
  std::string bytes(count, '\0');
  const std::span<uint8_t> target(reinterpret_cast<uint8_t*>(bytes.data()), bytes.size());
  if (!real_) {
    stream_.fill(target);
    return bytes;
  }
  if (sources_ != nullptr && sources_->fill) {
    if (!sources_->fill(target)) return refuse(Errno::kHost, "the embedder's source of entropy gave none");
    return bytes;
  }
  for (size_t done = 0; done < target.size();) {
    const ssize_t got = ::getrandom(target.data() + done, target.size() - done, 0);
    if (got < 0 && errno != EINTR) return refuse(Errno::kHost, "the kernel gave no entropy");
    if (got > 0) done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace membrane::host

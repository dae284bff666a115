#include "linux/fs/content.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace membrane::linux {
namespace {

constexpr uint64_t kHoleBytes = 64;  // the cost of recording one

constexpr uint64_t page_of(uint64_t offset) { return offset / kPageBytes; }
constexpr uint64_t round_up(uint64_t size) { return (size + kPageBytes - 1) / kPageBytes * kPageBytes; }

int error_of_host() { return errno == ENOMEM || errno == EMFILE || errno == ENFILE ? ENOSPC : EIO; }

// Writes all of it. Errors: EIO, ENOSPC.
Done write_all(int file, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (wrote <= 0) return err(error_of_host());
    offset += static_cast<uint64_t>(wrote);
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  return {};
}

}  // namespace

Content::~Content() {
  account_->give(charged_);
  account_->note_heap_pages(-heap_pages_);
  if (file_ >= 0) close(file_);
}

uint64_t Content::allocated() const {
  if (file_ >= 0) {
    struct stat status = {};
    return fstat(file_, &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * 512 : round_up(size_);
  }
  // Pages that overlay the image's are counted with them, up to the size.
  return std::min(round_up(base_size_) + charged_, round_up(size_));
}

std::span<const std::byte> Content::base_page(uint64_t page) const {
  const uint64_t begin = page * kPageBytes;
  if (const auto* const run = kept_run(page)) {
    if (begin >= kept_end_) return {};
    const uint64_t at = run->second.at + (page - run->first) * kPageBytes;
    return kept_file_->bytes().subspan(at, std::min(kPageBytes, kept_end_ - begin));
  }
  if (begin >= base_size_) return {};
  return base_.subspan(begin, std::min(kPageBytes, base_size_ - begin));
}

const Content::KeptRuns::value_type* Content::kept_run(uint64_t page) const {
  auto after = kept_.upper_bound(page);
  if (after == kept_.begin()) return nullptr;
  --after;
  return page - after->first < after->second.pages ? &*after : nullptr;
}

uint64_t Content::next_kept(uint64_t page) const {
  const auto next = kept_.lower_bound(page);
  return next == kept_.end() ? UINT64_MAX : next->first;
}

void Content::cut_base(uint64_t size) {
  base_size_ = std::min(base_size_, size);
  if (size >= kept_end_) return;
  const uint64_t from = page_of(round_up(size)), to = page_of(round_up(kept_end_));
  kept_end_ = size;
  uint64_t gone = 0;
  for (const auto& [first, run] : kept_) {
    const uint64_t begin = std::max(first, from), end = std::min(first + run.pages, to);
    if (begin >= end) continue;
    const auto entries = std::distance(pages_.lower_bound(begin), pages_.lower_bound(end));
    gone += end - begin - static_cast<uint64_t>(entries);
  }
  account_->give(gone * kPageBytes);
  charged_ -= gone * kPageBytes;
}

// Whether it consists only of consecutive pages of the file that it was kept in.
bool Content::is_one_run() const {
  return file_ < 0 && pages_.empty() && kept_.size() == 1 && kept_.begin()->first == 0 &&
         kept_end_ == size_ && kept_.begin()->second.pages >= page_of(round_up(size_));
}

bool Content::has_data(uint64_t page) const {
  const auto found = pages_.find(page);
  if (found != pages_.end()) return found->second != nullptr;
  return !base_page(page).empty();
}

Try<size_t> Content::read(uint64_t offset, std::span<std::byte> to) {
  if (offset >= size_) return size_t{0};
  to = to.first(std::min<uint64_t>(to.size(), size_ - offset));
  if (file_ >= 0) {
    const ssize_t got = pread(file_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0) return err(EIO);
    return static_cast<size_t>(got);
  }
  if (pages_.empty() && kept_.empty() && offset + to.size() <= base_size_) {
    std::memcpy(to.data(), base_.data() + offset, to.size());
    return to.size();
  }
  size_t done = 0;
  while (done < to.size()) {
    const uint64_t page = page_of(offset + done), within = (offset + done) % kPageBytes;
    const auto piece = to.subspan(done, std::min<uint64_t>(kPageBytes - within, to.size() - done));
    const auto found = pages_.find(page);
    std::span<const std::byte> bytes;
    if (found == pages_.end()) bytes = base_page(page);
    else if (found->second) bytes = *found->second;
    const size_t there = bytes.size() > within ? std::min(piece.size(), bytes.size() - within) : 0;
    if (there > 0) std::memcpy(piece.data(), bytes.data() + within, there);
    std::memset(piece.data() + there, 0, piece.size() - there);
    done += piece.size();
  }
  return done;
}

Content::Pages::iterator Content::drop(Pages::iterator page) {
  const uint64_t charge = page->second ? kPageBytes : kHoleBytes;
  account_->give(charge);
  charged_ -= charge;
  if (page->second) note_heap_pages(-1);
  return pages_.erase(page);
}

// A hole where the image has a page must be recorded, which takes memory as well.
Done Content::hide(uint64_t page) {
  const auto found = pages_.find(page);
  if (found == pages_.end() && !is_kept_page(page)) {
    MEMBRANE_TRY(account_->take(kHoleBytes));
    charged_ += kHoleBytes;
    pages_.emplace(page, nullptr);
  } else if (found == pages_.end()) {
    account_->give(kPageBytes - kHoleBytes);
    charged_ -= kPageBytes - kHoleBytes;
    pages_.emplace(page, nullptr);
  } else if (found->second) {
    account_->give(kPageBytes - kHoleBytes);
    charged_ -= kPageBytes - kHoleBytes;
    note_heap_pages(-1);
    found->second = nullptr;
  }
  return {};
}

Try<Content::Page*> Content::writable(uint64_t page) {
  const auto found = pages_.find(page);
  const bool is_hole = found != pages_.end() && !found->second;
  if (found != pages_.end() && !is_hole) return found->second.get();
  uint64_t charge = is_hole ? kPageBytes - kHoleBytes : kPageBytes;
  if (found == pages_.end() && is_kept_page(page)) charge = 0;
  MEMBRANE_TRY(account_->take(charge));
  charged_ += charge;
  auto made = std::make_unique<Page>();
  if (found == pages_.end()) {
    const auto bytes = base_page(page);
    if (!bytes.empty()) std::memcpy(made->data(), bytes.data(), bytes.size());
  }
  Page* const at = made.get();
  pages_[page] = std::move(made);
  note_heap_pages(1);
  return at;
}

Try<size_t> Content::write(uint64_t offset, std::span<const std::byte> from) {
  if (from.empty()) return size_t{0};
  if (offset >= kMostFileBytes) return err(EFBIG);
  from = from.first(std::min<uint64_t>(from.size(), kMostFileBytes - offset));
  if (file_ >= 0) {
    if (offset + from.size() > size_) MEMBRANE_TRY(resize(offset + from.size()));
    MEMBRANE_TRY(write_all(file_, offset, from));
    return from.size();
  }
  size_t done = 0;
  while (done < from.size()) {
    const uint64_t within = (offset + done) % kPageBytes;
    const auto page = writable(page_of(offset + done));
    if (!page) {
      if (done == 0) return err(page.error());
      break;
    }
    const size_t piece = std::min<uint64_t>(kPageBytes - within, from.size() - done);
    std::memcpy((*page)->data() + within, from.data() + done, piece);
    done += piece;
  }
  size_ = std::max(size_, offset + done);
  return done;
}

Done Content::resize(uint64_t size) {
  if (size > kMostFileBytes) return err(EFBIG);
  if (file_ >= 0) {
    if (round_up(size) > charged_) MEMBRANE_TRY(account_->take(round_up(size) - charged_));
    if (ftruncate(file_, static_cast<off_t>(size)) != 0) {
      if (round_up(size) > charged_) account_->give(round_up(size) - charged_);
      return err(error_of_host());
    }
    if (round_up(size) < charged_) account_->give(charged_ - round_up(size));
    charged_ = round_up(size);
    size_ = size;
    return {};
  }
  if (size < size_) {
    cut_base(size);
    const auto first = pages_.lower_bound(page_of(round_up(size)));
    for (auto page = first; page != pages_.end();) page = drop(page);
    const auto last = pages_.find(page_of(size));
    if (size % kPageBytes != 0 && last != pages_.end() && last->second)
      std::ranges::fill(std::span(*last->second).subspan(size % kPageBytes), std::byte{0});
  }
  size_ = size;
  return {};
}

// Holes where whole pages are, zeros elsewhere. Within the size.
Done Content::zero(uint64_t offset, uint64_t end) {
  if (offset >= end) return {};
  const uint64_t first = page_of(round_up(offset)), last = page_of(end);
  const auto clear = [&](uint64_t from, uint64_t to) -> Done {
    if (from >= to || !has_data(page_of(from))) return {};
    MEMBRANE_ASSIGN(Page * page, writable(page_of(from)));
    std::ranges::fill(std::span(*page).subspan(from % kPageBytes, to - from), std::byte{0});
    return {};
  };
  MEMBRANE_TRY(clear(offset, std::min(first * kPageBytes, end)));
  if (last >= first) MEMBRANE_TRY(clear(last * kPageBytes, end));
  if (first >= last) return {};
  if (last * kPageBytes >= base_end()) cut_base(first * kPageBytes);
  const uint64_t base_pages = page_of(round_up(base_end()));
  for (uint64_t page = first; page < std::min(last, base_pages); ++page) MEMBRANE_TRY(hide(page));
  for (auto page = pages_.lower_bound(std::max(first, base_pages));
       page != pages_.end() && page->first < last;)
    page = drop(page);
  return {};
}

Done Content::allocate(int mode, uint64_t offset, uint64_t length) {
  if (length == 0) return err(EINVAL);
  if (offset > kMostFileBytes || length > kMostFileBytes - offset) return err(EFBIG);
  const bool keeps_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  const int kind = mode & ~FALLOC_FL_KEEP_SIZE;
  if (kind != 0 && kind != FALLOC_FL_PUNCH_HOLE && kind != FALLOC_FL_ZERO_RANGE) return err(EOPNOTSUPP);
  if (kind == FALLOC_FL_PUNCH_HOLE && !keeps_size) return err(EOPNOTSUPP);
  const uint64_t end = offset + length, old_size = size_;
  if (!keeps_size && end > size_) MEMBRANE_TRY(resize(end));
  if (file_ >= 0) {
    const uint64_t within = std::min(end, size_);
    if (kind == 0 || offset >= within) return {};
    if (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                  static_cast<off_t>(within - offset)) != 0)
      return err(error_of_host());
    return {};
  }
  if (kind != 0) return zero(offset, std::min(end, size_));
  // Checks for room but does not reserve it: pages are charged when they are written.
  const uint64_t stop = std::min(end, size_), room = account_->bytes() - account_->used_bytes();
  uint64_t needed = 0;
  for (uint64_t page = page_of(offset); page * kPageBytes < stop && needed <= room; ++page)
    needed += has_data(page) ? 0 : kPageBytes;
  if (needed <= room) return {};
  MEMBRANE_TRY(resize(old_size));
  return account_->refuse();
}

Try<uint64_t> Content::seek_data(uint64_t offset, bool hole) {
  if (offset >= size_) return err(ENXIO);
  if (file_ >= 0) {
    const off_t got = lseek(file_, static_cast<off_t>(offset), hole ? SEEK_HOLE : SEEK_DATA);
    if (got < 0) return err(errno == ENXIO ? ENXIO : EIO);
    return static_cast<uint64_t>(got);
  }
  // Page by page where there are some; otherwise from one to the next.
  uint64_t page = page_of(offset);
  if (hole && pages_.empty() && kept_.empty()) page = std::max(page, page_of(round_up(base_size_)));
  while (page * kPageBytes < size_) {
    if (has_data(page) != hole) return std::max(offset, page * kPageBytes);
    if (!hole && page * kPageBytes >= base_size_) {
      const auto own = pages_.lower_bound(page + 1);
      const auto kept = kept_run(page + 1) != nullptr ? page + 1 : next_kept(page + 1);
      page = std::min(own == pages_.end() ? UINT64_MAX : own->first, kept);
      if (page >= page_of(round_up(size_))) return err(ENXIO);
    } else {
      ++page;
    }
  }
  if (hole) return size_;
  return err(ENXIO);
}

Done Content::move_to_file() {
  const uint64_t needed = round_up(size_);
  if (needed > charged_) MEMBRANE_TRY(account_->take(needed - charged_));
  const uint64_t taken = needed > charged_ ? needed - charged_ : 0;
  const int file = memfd_create("file", MFD_CLOEXEC);
  const auto give_up = [&](int error) {
    account_->give(taken);
    if (file >= 0) close(file);
    return err(error);
  };
  if (file < 0 || ftruncate(file, static_cast<off_t>(size_)) != 0) return give_up(error_of_host());
  if (const auto wrote = write_all(file, 0, base_.first(base_size_)); !wrote) return give_up(wrote.error());
  for (const auto& [first, run] : kept_) {
    const uint64_t begin = first * kPageBytes;
    if (begin >= kept_end_) break;
    const auto bytes =
        kept_file_->bytes().subspan(run.at, std::min(run.pages * kPageBytes, kept_end_ - begin));
    if (const auto wrote = write_all(file, begin, bytes); !wrote) return give_up(wrote.error());
  }
  for (const auto& [number, page] : pages_) {
    const uint64_t begin = number * kPageBytes;
    if (begin >= size_) break;
    static constexpr Page kZeros = {};
    const auto bytes =
        std::span<const std::byte>(page ? *page : kZeros).first(std::min(kPageBytes, size_ - begin));
    if (const auto wrote = write_all(file, begin, bytes); !wrote) return give_up(wrote.error());
  }
  if (needed < charged_) account_->give(charged_ - needed);
  charged_ = needed;
  file_ = file;
  pages_.clear();
  note_heap_pages(-heap_pages_);
  kept_.clear();
  kept_file_ = nullptr;
  kept_end_ = 0;
  base_ = {};
  base_size_ = 0;
  layer_ = nullptr;
  return {};
}

Try<Backing> Content::mapping(uint64_t offset, bool is_shared) {
  if (is_base() && layer_ && !is_shared && base_at_ != 0) {
    const uint64_t end = round_up(size_);
    return Backing{layer_->fd(), base_at_ + offset, false, offset < end ? end - offset : 0};
  }
  if (!is_shared && is_one_run()) {
    const uint64_t end = round_up(size_);
    return Backing{kept_file_->fd(), kept_.begin()->second.at + offset, false,
                   offset < end ? end - offset : 0};
  }
  if (file_ < 0) MEMBRANE_TRY(move_to_file());
  return Backing{file_, offset, is_shared};
}

}  // namespace membrane::linux

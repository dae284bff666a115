// The bytes of a regular file that a sandbox may change: pages of its own over those of an image and, once
// the file was mapped, a memfd that the guests' mappings share. Every page is charged before it is allocated.
//
// Threads: the kernel's thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "linux/abi/answer.h"
#include "linux/fs/page_file.h"
#include "linux/image/layer.h"
#include "linux/platform/platform.h"

namespace membrane::linux {

constexpr uint64_t kMostFileBytes = uint64_t{1} << 46;

// What a tree may use of the host: bytes of contents, names and attributes; and nodes.
class Account {
 public:
  Account(uint64_t bytes, uint64_t nodes) : bytes_(bytes), nodes_(nodes) {}
  // Errors: ENOSPC.
  Done take(uint64_t bytes, uint64_t nodes = 0) {
    if (bytes > bytes_ - used_bytes_ || nodes > nodes_ - used_nodes_) return refuse();
    used_bytes_ += bytes;
    used_nodes_ += nodes;
    return {};
  }
  void give(uint64_t bytes, uint64_t nodes = 0) {
    used_bytes_ -= bytes;
    used_nodes_ -= nodes;
  }
  // Records what contents are charged, and how many of their pages are in this process's heap; the others are
  // in files. May wrap below zero.
  void note_contents(uint64_t more) { content_bytes_ += more; }
  void note_heap_pages(int64_t more) { heap_pages_ += static_cast<uint64_t>(more); }
  // Fails for lack of room and counts the failure.
  std::unexpected<int> refuse() {
    ++refusals_;
    return err(ENOSPC);
  }
  [[nodiscard]] uint64_t refusals() const { return refusals_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t nodes() const { return nodes_; }
  [[nodiscard]] uint64_t used_bytes() const { return used_bytes_; }
  [[nodiscard]] uint64_t used_nodes() const { return used_nodes_; }
  // The part of used_bytes() that is in this process's heap, including names and attributes.
  [[nodiscard]] uint64_t heap_bytes() const {
    return used_bytes_ - content_bytes_ + heap_pages_ * kPageBytes;
  }

 private:
  uint64_t bytes_, nodes_, used_bytes_ = 0, used_nodes_ = 0, refusals_ = 0, content_bytes_ = 0,
                           heap_pages_ = 0;
};

// The charge of a content, which its account tracks separately.
class ContentCharge {
 public:
  explicit ContentCharge(Account& account) : account_(account) {}
  ~ContentCharge() { *this = 0; }
  ContentCharge(const ContentCharge&) = delete;
  ContentCharge& operator=(const ContentCharge&) = delete;
  ContentCharge& operator=(uint64_t bytes) {
    account_.note_contents(bytes - bytes_);
    bytes_ = bytes;
    return *this;
  }
  ContentCharge& operator+=(uint64_t bytes) { return *this = bytes_ + bytes; }
  ContentCharge& operator-=(uint64_t bytes) { return *this = bytes_ - bytes; }
  operator uint64_t() const { return bytes_; }  // NOLINT(google-explicit-constructor): it is a number

 private:
  Account& account_;
  uint64_t bytes_ = 0;
};

class Content {
 public:
  explicit Content(std::shared_ptr<Account> account) : account_(std::move(account)) {}
  // Over the bytes of a file of an image, which begin at `at` in it.
  Content(std::shared_ptr<Account> account, std::shared_ptr<const Layer> layer,
          std::span<const std::byte> bytes, uint64_t at)
      : account_(std::move(account)),
        layer_(std::move(layer)),
        base_(bytes),
        base_at_(at),
        base_size_(bytes.size()),
        size_(bytes.size()) {}
  ~Content();
  Content(const Content&) = delete;
  Content& operator=(const Content&) = delete;

  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] uint64_t allocated() const;
  // Whether the content is unchanged from the image.
  [[nodiscard]] bool is_base() const {
    return file_ < 0 && pages_.empty() && kept_.empty() && size_ == base_size_ && size_ == base_.size();
  }

  // As of Node.
  Try<size_t> read(uint64_t offset, std::span<std::byte> to);
  Try<size_t> write(uint64_t offset, std::span<const std::byte> from);
  Done resize(uint64_t size);
  Done allocate(int mode, uint64_t offset, uint64_t length);
  Try<uint64_t> seek_data(uint64_t offset, bool hole);
  Try<Backing> mapping(uint64_t offset, bool is_shared);

 private:
  using Page = std::array<std::byte, kPageBytes>;
  using Pages = std::map<uint64_t, std::unique_ptr<Page>>;
  // Consecutive pages of the file that the sandbox was kept in. They overlay the image's pages, and are
  // charged as if they were in pages_.
  struct KeptRun {
    uint64_t pages = 0, at = 0;  // in the file
  };
  using KeptRuns = std::map<uint64_t, KeptRun>;  // by the number of their first page

  friend class ContentState;  // linux/kept/tree_state.h
  friend class ContentPages;

  // The page's bytes below pages_: kept ones or the image's; empty beyond them.
  [[nodiscard]] std::span<const std::byte> base_page(uint64_t page) const;
  [[nodiscard]] const KeptRuns::value_type* kept_run(uint64_t page) const;
  [[nodiscard]] uint64_t next_kept(
      uint64_t page) const;  // the next page where a run begins; UINT64_MAX for none
  [[nodiscard]] uint64_t base_end() const { return std::max(base_size_, kept_end_); }
  [[nodiscard]] bool is_kept_page(uint64_t page) const {
    return page * kPageBytes < kept_end_ && kept_run(page) != nullptr;
  }
  void cut_base(uint64_t size);  // call it before dropping the pages beyond
  [[nodiscard]] bool is_one_run() const;
  [[nodiscard]] bool has_data(uint64_t page) const;
  Pages::iterator drop(Pages::iterator page);
  Done hide(uint64_t page);
  Try<Page*> writable(uint64_t page);
  Done zero(uint64_t offset, uint64_t end);
  Done move_to_file();

  std::shared_ptr<Account> account_;
  std::shared_ptr<const Layer> layer_;
  std::span<const std::byte> base_;
  uint64_t base_at_ = 0;
  uint64_t base_size_ = 0;  // how many of the image's bytes still belong to the file
  std::shared_ptr<const PageFile> kept_file_;
  KeptRuns kept_;
  uint64_t kept_end_ = 0;  // how many of the kept bytes still belong to the file
  uint64_t size_ = 0;
  void note_heap_pages(int64_t more) {
    account_->note_heap_pages(more);
    heap_pages_ += more;
  }
  Pages pages_;             // by number; an empty one is a hole over the base
  int64_t heap_pages_ = 0;  // those that are not holes
  ContentCharge charged_{*account_};
  int file_ = -1;  // a memfd, which then holds all bytes
};

}  // namespace membrane::linux

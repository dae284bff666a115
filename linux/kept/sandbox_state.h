// How objects of a sandbox refer to each other in its state: by numbers from 1 on; 0 is null. Each kind of
// object has its own numbering.
//
// A SandboxWriter writes an object when something first refers to it, into the section of its kind. The
// sections are read in an order in which an object refers only to objects read before: terminals, places
// (nodes and the locations by which they were reached), things (pipes, ends of sockets, streams), files; then
// the references of files and ends that may be circular (bodies). Nothing recurses, whatever the shape of the
// references.
//
// Threads: the kernel's thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "linux/files/outside.h"
#include "linux/files/pipe.h"
#include "linux/files/process_file.h"
#include "linux/files/pty.h"
#include "linux/files/socket_file.h"
#include "linux/fs/page_file.h"
#include "linux/fs/paths.h"
#include "linux/kept/page_writer.h"
#include "linux/kept/state_bytes.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {

class Tree;

// Objects by number, while they are written.
template <typename T>
class Numbers {
 public:
  // 0 when it has none.
  [[nodiscard]] uint32_t find(const T* thing) const {
    const auto found = by_thing_.find(thing);
    return found == by_thing_.end() ? 0 : found->second;
  }
  uint32_t add(std::shared_ptr<T> thing) {
    const auto number = static_cast<uint32_t>(all.size()) + 1;
    by_thing_[thing.get()] = number;
    all.push_back(std::move(thing));
    return number;
  }
  std::vector<std::shared_ptr<T>> all;

 private:
  std::unordered_map<const T*, uint32_t> by_thing_;
};

// The trees of a kernel, in their order in the state: its root's, those of /dev and /dev/shm, and that of its
// memfds.
std::vector<Tree*> trees_of(Kernel& kernel);

class SandboxWriter {
 public:
  SandboxWriter(Kernel& kernel, PageWriter& pages);

  uint32_t node(const NodeRef& node);
  uint32_t location(const LocationRef& location);
  uint32_t terminal(const std::shared_ptr<Terminal>& terminal);
  uint32_t pipe(const std::shared_ptr<Pipe>& pipe, const NodeRef& node);
  uint32_t end(const std::shared_ptr<SocketEnd>& end);
  uint32_t process_end(const std::shared_ptr<ProcessEnd>& end);
  uint32_t input(const std::shared_ptr<OutsideInput>& input);
  uint32_t output(const std::shared_ptr<OutsideOutput>& output);
  uint32_t file(const FileRef& file);

  // Comes after everything else: the bodies of all objects that were referred to, and what those refer to.
  void write_bodies();
  void write_to(StateWriter& state) const;

  Kernel& kernel;
  PageWriter& pages;
  StateWriter terminal_section, place_section, thing_section, file_section, body_section;
  Numbers<Node> nodes;
  Numbers<const Location> locations;
  Numbers<Terminal> terminals;
  Numbers<Pipe> pipes;
  Numbers<SocketEnd> ends;
  Numbers<ProcessEnd> process_ends;
  Numbers<OutsideInput> inputs;
  Numbers<OutsideOutput> outputs;
  Numbers<File> files;

 private:
  uint32_t node_of(const NodeRef& node, const LocationRef& above, const std::string& name);
  const std::vector<Tree*> trees_;
  uint32_t places_ = 0, things_ = 0, bodies_ = 0;
  size_t files_with_body_ = 0, ends_with_body_ = 0;
};

class SandboxReader {
 public:
  SandboxReader(Kernel& in, StateReader& from, std::shared_ptr<const PageFile> its_pages)
      : kernel(in), state(from), pages(std::move(its_pages)) {}

  // Reads all sections. False: the state is damaged.
  bool read();

  // Returns the object of a number that was read; nullptr for 0. A number without an object is refused.
  template <typename T>
  T take(const std::vector<T>& all) {
    const auto number = state.get<uint32_t>();
    state.require(number <= all.size());
    return !state.is_good() || number == 0 ? nullptr : all[number - 1];
  }
  template <typename T>
  T take_one(const std::vector<T>& all) {
    T thing = take(all);
    state.require(thing != nullptr);
    return thing;
  }

  Kernel& kernel;
  StateReader& state;
  const std::shared_ptr<const PageFile> pages;
  std::vector<NodeRef> nodes;
  std::vector<LocationRef> locations;
  std::vector<std::shared_ptr<Terminal>> terminals;
  std::vector<std::shared_ptr<Pipe>> pipes;
  struct Openings {
    uint64_t readers = 0, writers = 0;
  };
  std::vector<Openings> pipe_openings;  // for each: how often it was opened, restored after all files
  std::vector<std::shared_ptr<SocketEnd>> ends;
  std::vector<std::shared_ptr<ProcessEnd>> process_ends;
  std::vector<std::shared_ptr<OutsideInput>> inputs;
  std::vector<std::shared_ptr<OutsideOutput>> outputs;
  std::vector<FileRef> files;
  uint64_t shared_bytes = 0;  // shared memory so far

  // -- of the file that is being read
  uint8_t kind = 0;
  int flags = 0;
  NodeRef node;
  LocationRef location;

 private:
  void read_place();
  void read_thing();
};

}  // namespace membrane::linux

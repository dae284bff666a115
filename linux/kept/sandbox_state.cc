#include "linux/kept/sandbox_state.h"

#include <algorithm>

#include "linux/files/anonymous_node.h"
#include "linux/files/sealed_node.h"
#include "linux/fs/tree_node.h"
#include "linux/kept/file_state.h"
#include "linux/kept/tree_state.h"
#include "linux/proc/mounts.h"

namespace membrane::linux {
namespace {

constexpr size_t kLeastFileBytes = 13;

enum class PlaceKind : uint8_t {
  kTreeNode = 1,  // tree, number
  kAnonymousNode,
  kSealedNode,    // of a memfd: content, name, seals
  kTerminalNode,  // terminal
  kNamedNode,     // a location, and a name there: /proc, /sys, what is mounted from outside
  kGoneNode,      // that cannot be found again
  kLocation,      // location above, node, name
  kRoot,          // the kernel's root, as a location
};

enum class ThingKind : uint8_t { kPipe = 1, kSocketEnd, kProcessEnd, kInput, kOutput };
enum class BodyKind : uint8_t { kFile = 1, kSocketEnd };

// What is written while nobody holds it is lost.
Try<size_t> drop(std::span<const std::byte> bytes) { return bytes.size(); }

constexpr uint64_t kPtsDevice = 0x18, kFirstPtsNode = 3;

std::shared_ptr<Terminal> terminal_of(Kernel& kernel, Node& node) {
  if (kernel.system == nullptr) return nullptr;
  const Attributes facts = node.attributes();
  if (facts.device != kPtsDevice || facts.number < kFirstPtsNode ||
      facts.number > Terminals::kMost + kFirstPtsNode)
    return nullptr;
  auto terminal = kernel.system->terminals->find(static_cast<int>(facts.number - kFirstPtsNode));
  return terminal != nullptr && terminal->node.get() == &node ? terminal : nullptr;
}

}  // namespace

std::vector<Tree*> trees_of(Kernel& kernel) {
  std::vector<Tree*> trees = {TreeState::tree_of(kernel.root->node.get())};
  if (kernel.system != nullptr)
    for (const NodeRef& root : {kernel.system->device_files, kernel.system->shared_memory})
      trees.push_back(TreeState::tree_of(root.get()));
  if (kernel.memory_files != nullptr) trees.push_back(TreeState::tree_of(kernel.memory_files.get()));
  return trees;
}

// -- writing

SandboxWriter::SandboxWriter(Kernel& of, PageWriter& to) : kernel(of), pages(to), trees_(trees_of(of)) {}

uint32_t SandboxWriter::node(const NodeRef& node) { return node_of(node, nullptr, ""); }

// A node that only a name leads to is identified by the location above it.
uint32_t SandboxWriter::node_of(const NodeRef& node, const LocationRef& above, const std::string& name) {
  if (node == nullptr) return 0;
  if (const uint32_t known = nodes.find(node.get())) return known;
  if (Tree* const tree = TreeState::tree_of(node.get())) {
    const auto at = std::ranges::find(trees_, tree);
    if (at != trees_.end()) {
      place_section(PlaceKind::kTreeNode);
      place_section(static_cast<uint8_t>(at - trees_.begin()));
      place_section(static_cast<TreeNode&>(*node).number());  // a copy shows another one's
    } else {
      place_section(PlaceKind::kGoneNode);
    }
  } else if (auto* const anonymous = dynamic_cast<AnonymousNode*>(node.get())) {
    place_section(PlaceKind::kAnonymousNode);
    FileState::write_anonymous(*this, *anonymous);
  } else if (auto* const sealed = dynamic_cast<SealedNode*>(node.get())) {
    const uint32_t content = node_of(sealed->content(), nullptr, "");  // a tree's
    place_section(PlaceKind::kSealedNode);
    place_section(content);
    place_section(sealed->name());
    place_section(sealed->seals());
  } else if (const auto its_terminal = terminal_of(kernel, *node)) {
    const uint32_t number = terminal(its_terminal);
    place_section(PlaceKind::kTerminalNode);
    place_section(number);
  } else if (above != nullptr) {
    place_section(PlaceKind::kNamedNode);
    place_section(locations.find(above.get()));
    place_section(name);
  } else {
    place_section(PlaceKind::kGoneNode);
  }
  ++places_;
  return nodes.add(node);
}

uint32_t SandboxWriter::location(const LocationRef& location) {
  if (location == nullptr) return 0;
  std::vector<LocationRef> way;
  for (LocationRef at = location; at != nullptr && locations.find(at.get()) == 0; at = at->parent)
    way.push_back(at);
  for (; !way.empty(); way.pop_back()) {
    const LocationRef& at = way.back();
    if (at == kernel.root) {
      place_section(PlaceKind::kRoot);
    } else {
      const uint32_t its_node = node_of(at->node, at->parent, at->name);
      place_section(PlaceKind::kLocation);
      place_section(at->parent == nullptr ? uint32_t{0} : locations.find(at->parent.get()));
      place_section(its_node);
      place_section(at->name);
    }
    ++places_;
    locations.add(at);
  }
  return locations.find(location.get());
}

uint32_t SandboxWriter::terminal(const std::shared_ptr<Terminal>& terminal) {
  if (terminal == nullptr) return 0;
  if (const uint32_t known = terminals.find(terminal.get())) return known;
  FileState::write_terminal(*this, *terminal);
  return terminals.add(terminal);
}

uint32_t SandboxWriter::pipe(const std::shared_ptr<Pipe>& pipe, const NodeRef& its_node) {
  if (const uint32_t known = pipes.find(pipe.get())) return known;
  const uint32_t number = node(its_node);
  thing_section(ThingKind::kPipe);
  FileState::write_pipe(*this, *pipe, number);
  ++things_;
  return pipes.add(pipe);
}

uint32_t SandboxWriter::end(const std::shared_ptr<SocketEnd>& end) {
  if (end == nullptr) return 0;
  if (const uint32_t known = ends.find(end.get())) return known;
  thing_section(ThingKind::kSocketEnd);
  thing_section(static_cast<int32_t>(end->domain));
  thing_section(static_cast<int32_t>(end->type));
  ++things_;
  return ends.add(end);
}

uint32_t SandboxWriter::process_end(const std::shared_ptr<ProcessEnd>& end) {
  if (end == nullptr) return 0;
  if (const uint32_t known = process_ends.find(end.get())) return known;
  thing_section(ThingKind::kProcessEnd);
  thing_section(static_cast<int32_t>(end->process));
  thing_section(end->has_ended);
  ++things_;
  return process_ends.add(end);
}

uint32_t SandboxWriter::input(const std::shared_ptr<OutsideInput>& input) {
  if (const uint32_t known = inputs.find(input.get())) return known;
  thing_section(ThingKind::kInput);
  FileState::write_input(*this, *input);
  ++things_;
  return inputs.add(input);
}

uint32_t SandboxWriter::output(const std::shared_ptr<OutsideOutput>& output) {
  if (const uint32_t known = outputs.find(output.get())) return known;
  thing_section(ThingKind::kOutput);
  ++things_;
  return outputs.add(output);
}

uint32_t SandboxWriter::file(const FileRef& file) {
  if (file == nullptr) return 0;
  if (const uint32_t known = files.find(file.get())) return known;
  FileState::write_file(*this, file);
  return files.add(file);
}

// Bodies refer to more files and ends, which are then written too.
void SandboxWriter::write_bodies() {
  while (files_with_body_ < files.all.size() || ends_with_body_ < ends.all.size()) {
    if (files_with_body_ < files.all.size()) {
      const FileRef file = files.all[files_with_body_++];
      StateWriter before = std::exchange(body_section, StateWriter());
      const bool has_body = FileState::write_body(*this, *file);
      const StateWriter body = std::exchange(body_section, std::move(before));
      if (!has_body) continue;
      body_section(BodyKind::kFile);
      body_section(static_cast<uint32_t>(files_with_body_));
      body_section.put(body.bytes());
    } else {
      const auto end = ends.all[ends_with_body_++];
      StateWriter before = std::exchange(body_section, StateWriter());
      FileState::write_end(*this, *end);
      const StateWriter body = std::exchange(body_section, std::move(before));
      body_section(BodyKind::kSocketEnd);
      body_section(static_cast<uint32_t>(ends_with_body_));
      body_section.put(body.bytes());
    }
    ++bodies_;
  }
}

void SandboxWriter::write_to(StateWriter& state) const {
  state(static_cast<uint32_t>(terminals.all.size()));
  state.put(terminal_section.bytes());
  state(places_);
  state.put(place_section.bytes());
  state(things_);
  state.put(thing_section.bytes());
  state(static_cast<uint32_t>(files.all.size()));
  state.put(file_section.bytes());
  state(bodies_);
  state.put(body_section.bytes());
}

// -- reading

void SandboxReader::read_place() {
  const std::vector<Tree*> trees = trees_of(kernel);
  NodeRef made;
  switch (state.get<PlaceKind>()) {
    case PlaceKind::kTreeNode: {
      const auto tree = state.get<uint8_t>();
      const auto number = state.get<uint64_t>();
      state.require(tree < trees.size() && trees[tree] != nullptr);
      if (state.is_good()) made = TreeState::find(*trees[tree], number);
      state.require(made != nullptr);
      break;
    }
    case PlaceKind::kAnonymousNode: made = FileState::read_anonymous(*this); break;
    case PlaceKind::kSealedNode: {
      const NodeRef content = take_one(nodes);
      const auto name = state.get<std::string>();
      const auto seals = state.get<uint32_t>();
      state.require(state.is_good() && content->type() == S_IFREG &&
                    TreeState::tree_of(content.get()) != nullptr);
      if (state.is_good()) made = std::make_shared<SealedNode>(content, name, seals);
      break;
    }
    case PlaceKind::kTerminalNode:
      if (const auto terminal = take_one(terminals)) made = terminal->node;
      break;
    case PlaceKind::kNamedNode: {
      const LocationRef above = take_one(locations);
      const auto name = state.get<std::string>();
      state.require(!name.empty() && name.size() <= kMostNameBytes && name != "." && name != ".." &&
                    name.find('/') == name.npos && name.find('\0') == name.npos);
      if (!state.is_good()) return;
      const auto found = above->node->look_up(name);
      made = found ? kernel.mounts.over(*found) : make_anonymous_node(AnonymousDevice::kOthers, 0600);
      break;
    }
    case PlaceKind::kGoneNode: made = make_anonymous_node(AnonymousDevice::kOthers, 0600); break;
    case PlaceKind::kLocation: {
      LocationRef above = take(locations);
      NodeRef there = take_one(nodes);
      const auto name = state.get<std::string>();
      state.require(name.size() <= kMostPathBytes);
      if (state.is_good())
        locations.push_back(std::make_shared<const Location>(
            Location{.node = std::move(there), .parent = std::move(above), .name = name}));
      return;
    }
    case PlaceKind::kRoot: locations.push_back(kernel.root); return;
    default: return state.refuse();
  }
  if (state.is_good()) nodes.push_back(std::move(made));
}

void SandboxReader::read_thing() {
  switch (state.get<ThingKind>()) {
    case ThingKind::kPipe: pipes.push_back(FileState::read_pipe(*this)); return;
    case ThingKind::kSocketEnd: {
      const auto domain = state.get<int32_t>(), type = state.get<int32_t>();
      const bool is_unix = domain == AF_UNIX;
      const bool is_netlink = domain == AF_NETLINK && (type == SOCK_RAW || type == SOCK_DGRAM);
      state.require(is_netlink ||
                    ((is_unix || domain == AF_INET || domain == AF_INET6) &&
                     (type == SOCK_STREAM || type == SOCK_DGRAM || (is_unix && type == SOCK_SEQPACKET))));
      if (kernel.sockets == nullptr) kernel.sockets = std::make_shared<SocketSpace>();
      if (state.is_good()) ends.push_back(std::make_shared<SocketEnd>(kernel.sockets, domain, type));
      return;
    }
    case ThingKind::kProcessEnd: {
      const auto process = state.get<int32_t>();
      const bool has_ended = state.get<bool>();
      process_ends.push_back(std::make_shared<ProcessEnd>(process));
      process_ends.back()->has_ended = has_ended;
      return;
    }
    case ThingKind::kInput: inputs.push_back(FileState::read_input(*this)); return;
    case ThingKind::kOutput:
      outputs.push_back(std::make_shared<OutsideOutput>(drop, std::make_shared<OutputCount>()));
      return;
    default: state.refuse();
  }
}

bool SandboxReader::read() {
  for (size_t left = state.count(32); left > 0 && state.is_good(); --left)
    terminals.push_back(FileState::read_terminal(*this));
  for (size_t left = state.count(1); left > 0 && state.is_good(); --left) read_place();
  for (size_t left = state.count(1); left > 0 && state.is_good(); --left) read_thing();
  for (size_t left = state.count(kLeastFileBytes); left > 0 && state.is_good(); --left) {
    FileRef file = FileState::read_file(*this);
    state.require(file != nullptr);
    if (state.is_good()) files.push_back(std::move(file));
  }
  for (size_t left = state.count(5); left > 0 && state.is_good(); --left) {
    switch (state.get<BodyKind>()) {
      case BodyKind::kFile:
        if (const FileRef file = take_one(files)) FileState::read_body(*this, *file);
        break;
      case BodyKind::kSocketEnd:
        if (const auto end = take_one(ends)) FileState::read_end(*this, *end);
        break;
      default: state.refuse();
    }
  }
  if (!state.is_good()) return false;
  FileState::reset_outside(*this);
  for (size_t i = 0; i < pipes.size(); ++i) {
    pipes[i]->readers_so_far = pipe_openings[i].readers;
    pipes[i]->writers_so_far = pipe_openings[i].writers;
  }
  return true;
}

}  // namespace membrane::linux

// Open files, and the objects they depend on, in the state of a kept sandbox (sandbox_state.h). Parts that
// belong to this process, such as wait queues, are recreated. Threads: the kernel's thread.
#pragma once

#include "linux/kept/sandbox_state.h"

namespace membrane::linux {

class FileState {
 public:
  static void write_anonymous(SandboxWriter& to, AnonymousNode& node);
  static NodeRef read_anonymous(SandboxReader& from);

  static void write_terminal(SandboxWriter& to, Terminal& terminal);
  static std::shared_ptr<Terminal> read_terminal(SandboxReader& from);
  static void write_pipe(SandboxWriter& to, Pipe& pipe, uint32_t node);
  static std::shared_ptr<Pipe> read_pipe(SandboxReader& from);
  static void write_input(SandboxWriter& to, OutsideInput& input);
  static std::shared_ptr<OutsideInput> read_input(SandboxReader& from);

  static void write_file(SandboxWriter& to, const FileRef& file);
  static FileRef read_file(SandboxReader& from);
  // Writes the references of a file that may be circular. False when it has no such body.
  static bool write_body(SandboxWriter& to, File& file);
  static void read_body(SandboxReader& from, File& file);
  static void write_end(SandboxWriter& to, SocketEnd& end);
  static void read_end(SandboxReader& from, SocketEnd& end);

  // Resets connections that led out of the sandbox: nobody is at their other end. Runs after all ends were
  // read.
  static void reset_outside(SandboxReader& from);
  // The names of sockets. Runs after all ends were read.
  static void write_names(const SandboxWriter& to, const SocketSpace& sockets, StateWriter& state);
  static void read_names(SandboxReader& from);

 private:
  template <typename State>
  static void transfer_line(State& state, LineDiscipline& line);
  template <typename State>
  static void transfer_job(State& state, Terminal& terminal);
  template <typename State>
  static void transfer_options(State& state, SocketFile& socket);
  static void write_socket(SandboxWriter& to, SocketFile& socket);
  static FileRef read_socket(SandboxReader& from);
  static FileRef read_kind(SandboxReader& from);
  static FileRef read_timer(SandboxReader& from);
  static void read_inotify_body(SandboxReader& from, class InotifyFile& file);
};

}  // namespace membrane::linux

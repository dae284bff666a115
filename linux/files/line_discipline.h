// What a terminal does to bytes on their way: input is collected into editable lines, echoed, and turned into
// signals; output gets its carriage returns. This follows Linux's N_TTY, except that output is never stopped
// (IXON swallows its two characters) and PARMRK is ignored. Every step is a loop over the bytes given to it
// and the line being edited, whose length is limited. Threads: the owner's thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>

#include "linux/files/byte_queue.h"

namespace membrane::linux {

// `struct termios` of the system call interface.
struct TerminalModes {
  uint32_t input = 0x500;   // c_iflag: ICRNL | IXON
  uint32_t output = 0x5;    // c_oflag: OPOST | ONLCR
  uint32_t control = 0xbf;  // c_cflag: B38400 | CS8 | CREAD
  uint32_t local = 0x8a3b;  // c_lflag: ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN
  uint8_t discipline = 0;   // c_line
  std::array<uint8_t, 19> characters = {0x03, 0x1c, 0x7f, 0x15, 0x04, 0,    1, 0, 0x11, 0x13,
                                        0x1a, 0,    0x12, 0x0f, 0x17, 0x16, 0, 0, 0};  // c_cc
};
static_assert(sizeof(TerminalModes) == 36);

class LineDiscipline {
 public:
  static constexpr size_t kMostInput = 4096;    // bytes kept for the reader
  static constexpr size_t kMostOutput = 16384;  // bytes kept for the master

  // Calls `raise` with SIGINT, SIGQUIT or SIGTSTP when one is typed.
  explicit LineDiscipline(std::function<void(int)> raise) : raise_(std::move(raise)) {}

  [[nodiscard]] const TerminalModes& modes() const { return modes_; }
  void set_modes(const TerminalModes& modes);

  // -- the keyboard
  // Returns how many bytes it took: fewer when readers must make room first.
  size_t receive(std::span<const std::byte> bytes);
  [[nodiscard]] bool has_input_room() const;

  // -- readers
  // Errors: EAGAIN when there is nothing or, unless `takes_what_is_there`, less than VMIN requires.
  Try<size_t> read(Buffer& to, bool takes_what_is_there);
  [[nodiscard]] bool is_readable() const;
  [[nodiscard]] size_t readable_bytes() const;
  void flush_input();

  // -- writers
  // Errors: EAGAIN when the screen has no room.
  Try<size_t> write(Buffer& from);
  [[nodiscard]] bool has_output_room() const { return output.size() + 8 <= kMostOutput; }
  ByteQueue output;  // for the master

 private:
  friend class FileState;  // linux/kept/file_state.h
  struct LineEnd {
    uint64_t end = 0;        // counted over all input ever: the first byte after the line
    bool is_marker = false;  // the last byte is VEOF, which readers do not get
  };
  [[nodiscard]] bool has(uint32_t flag) const { return (modes_.local & flag) != 0; }
  [[nodiscard]] bool is_char(uint8_t c, int which) const { return c != 0 && c == modes_.characters[which]; }
  [[nodiscard]] bool is_special(uint8_t c) const;
  [[nodiscard]] bool is_continuation(uint8_t c) const;
  [[nodiscard]] uint64_t input_end() const { return dropped_ + input_.size(); }
  [[nodiscard]] bool has_edited() const { return input_end() > edited_from_; }
  [[nodiscard]] uint8_t input_at(uint64_t position) const;

  void receive_one(uint8_t c);
  void receive_special(uint8_t c);
  void receive_plain(uint8_t c);
  bool receive_in_line(uint8_t c);
  void raise(uint8_t c, int signal);
  void put(uint8_t c) { input_.append(static_cast<std::byte>(c)); }
  void end_line(uint8_t c, bool is_marker);

  void erase(uint8_t c);
  bool erase_kill(uint8_t c);
  void echo_erased(uint8_t c);
  void echo_erased_tab();

  void echo(uint8_t c);      // a control character as ^C
  void echo_raw(uint8_t c);  // processed like output
  void echo_typed(uint8_t c);
  void screen(uint8_t c);  // a byte of output, processed by the modes
  void emit(uint8_t c);    // to the master, unless its queue is full

  TerminalModes modes_;
  std::function<void(int)> raise_;
  ByteQueue input_;
  uint64_t dropped_ = 0;      // bytes of input already read
  uint64_t edited_from_ = 0;  // start of the unfinished line
  std::deque<LineEnd> lines_;
  bool next_is_literal_ = false;
  uint32_t column_ = 0, line_column_ = 0;  // on the screen; where the edited line begins
};

}  // namespace membrane::linux

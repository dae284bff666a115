#include "linux/files/line_discipline.h"

#include <signal.h>
#include <termios.h>

#include <algorithm>

namespace membrane::linux {
namespace {

bool is_control(uint8_t c) { return c < 0x20 || c == 0x7f; }

// Of Latin-1, as in Linux.
bool is_alphanumeric(uint8_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         (c >= 0xc0 && c != 0xd7 && c != 0xf7);
}

}  // namespace

bool LineDiscipline::is_continuation(uint8_t c) const {
  return (modes_.input & IUTF8) != 0 && (c & 0xc0) == 0x80;
}

uint8_t LineDiscipline::input_at(uint64_t position) const {
  return static_cast<uint8_t>(input_.bytes()[position - dropped_]);
}

void LineDiscipline::set_modes(const TerminalModes& modes) {
  const bool changes_lines = ((modes_.local ^ modes.local) & ICANON) != 0;
  modes_ = modes;
  if (!changes_lines) return;
  // What is there can be read at once, whichever way the change goes.
  lines_.clear();
  next_is_literal_ = false;
  edited_from_ = dropped_;
  if (has(ICANON) && !input_.is_empty()) {
    lines_.push_back({.end = input_end()});
    edited_from_ = input_end();
  }
}

// -- input

bool LineDiscipline::has_input_room() const {
  return input_.size() + 1 < kMostInput || (has(ICANON) && lines_.empty());
}

size_t LineDiscipline::receive(std::span<const std::byte> bytes) {
  size_t count = 0;
  for (const std::byte byte : bytes) {
    if (!has_input_room()) break;
    // A line that is too long gives up its last character to the next one, so that it can be ended.
    if (input_.size() >= kMostInput) input_.drop_last(1);
    receive_one(static_cast<uint8_t>(byte));
    ++count;
  }
  return count;
}

void LineDiscipline::receive_one(uint8_t c) {
  if ((modes_.input & ISTRIP) != 0) c &= 0x7f;
  if ((modes_.input & IUCLC) != 0 && has(IEXTEN) && c >= 'A' && c <= 'Z') c |= 0x20;
  if (next_is_literal_) {
    next_is_literal_ = false;
    receive_plain(c);
  } else if (is_special(c)) {
    receive_special(c);
  } else {
    receive_plain(c);
  }
}

// Whether the character may need special treatment in these modes. Others are echoed as they are: a newline
// in raw mode, as ^J.
bool LineDiscipline::is_special(uint8_t c) const {
  if (c == '\r') return (modes_.input & (IGNCR | ICRNL)) != 0;
  if (c == '\n' && ((modes_.input & INLCR) != 0 || has(ICANON))) return true;
  if (has(ISIG) && (is_char(c, VINTR) || is_char(c, VQUIT) || is_char(c, VSUSP))) return true;
  if ((modes_.input & IXON) != 0 && (is_char(c, VSTART) || is_char(c, VSTOP))) return true;
  if (!has(ICANON)) return false;
  if (is_char(c, VERASE) || is_char(c, VKILL) || is_char(c, VEOF) || is_char(c, VEOL)) return true;
  return has(IEXTEN) && (is_char(c, VWERASE) || is_char(c, VLNEXT) || is_char(c, VEOL2) ||
                         (has(ECHO) && is_char(c, VREPRINT)));
}

void LineDiscipline::receive_special(uint8_t c) {
  if ((modes_.input & IXON) != 0 && (is_char(c, VSTART) || is_char(c, VSTOP))) return;
  if (has(ISIG)) {
    if (is_char(c, VINTR)) return raise(c, SIGINT);
    if (is_char(c, VQUIT)) return raise(c, SIGQUIT);
    if (is_char(c, VSUSP)) return raise(c, SIGTSTP);
  }
  if (c == '\r') {
    if ((modes_.input & IGNCR) != 0) return;
    if ((modes_.input & ICRNL) != 0) c = '\n';
  } else if (c == '\n' && (modes_.input & INLCR) != 0) {
    c = '\r';
  }
  if (has(ICANON) && receive_in_line(c)) return;
  if (has(ECHO) && c == '\n') echo_raw(c);
  else echo_typed(c);
  put(c);
}

void LineDiscipline::receive_plain(uint8_t c) {
  echo_typed(c);
  put(c);
}

// Whether the character edits or ends the line.
bool LineDiscipline::receive_in_line(uint8_t c) {
  if (is_char(c, VERASE) || is_char(c, VKILL) || (is_char(c, VWERASE) && has(IEXTEN))) {
    erase(c);
  } else if (is_char(c, VLNEXT) && has(IEXTEN)) {
    next_is_literal_ = true;
    if (has(ECHO) && has(ECHOCTL)) {
      echo_raw('^');
      echo_raw('\b');
    }
  } else if (is_char(c, VREPRINT) && has(ECHO) && has(IEXTEN)) {
    echo(c);
    echo_raw('\n');
    for (uint64_t at = edited_from_; at < input_end(); ++at) echo(input_at(at));
  } else if (c == '\n') {
    if (has(ECHO) || has(ECHONL)) echo_raw('\n');
    end_line(c, false);
  } else if (is_char(c, VEOF)) {
    end_line(0, true);
  } else if (is_char(c, VEOL) || (is_char(c, VEOL2) && has(IEXTEN))) {
    echo_typed(c);
    end_line(c, false);
  } else {
    return false;
  }
  return true;
}

void LineDiscipline::raise(uint8_t c, int signal) {
  raise_(signal);
  if (!has(NOFLSH)) flush_input();
  if (has(ECHO)) echo(c);
}

void LineDiscipline::end_line(uint8_t c, bool is_marker) {
  put(c);
  lines_.push_back({.end = input_end(), .is_marker = is_marker});
  edited_from_ = input_end();
}

void LineDiscipline::flush_input() {
  dropped_ = input_end();
  edited_from_ = dropped_;
  input_.clear();
  lines_.clear();
  next_is_literal_ = false;
}

// -- editing

// VKILL where the line is not erased from the screen character by character.
bool LineDiscipline::erase_kill(uint8_t c) {
  if (has(ECHO) && has(ECHOK) && has(ECHOKE) && has(ECHOE)) return false;
  input_.drop_last(input_end() - edited_from_);
  if (has(ECHO)) {
    echo(c);
    if (has(ECHOK)) echo_raw('\n');
  }
  return true;
}

void LineDiscipline::erase(uint8_t c) {
  if (!has_edited()) return;
  const bool is_word = !is_char(c, VERASE) && is_char(c, VWERASE) && has(IEXTEN);
  const bool is_kill = !is_char(c, VERASE) && !is_word;
  if (is_kill && erase_kill(c)) return;
  bool has_seen_word = false;
  while (has_edited()) {
    uint64_t head = input_end();
    uint8_t erased = 0;
    do erased = input_at(--head);
    while (is_continuation(erased) && head != edited_from_);
    if (is_continuation(erased)) break;
    if (is_word) {
      if (is_alphanumeric(erased) || erased == '_') has_seen_word = true;
      else if (has_seen_word) break;
    }
    input_.drop_last(input_end() - head);
    if (has(ECHO)) {
      if (is_char(c, VERASE) && !has(ECHOE)) echo(c);
      else echo_erased(erased);
    }
    if (is_char(c, VERASE)) break;
  }
}

void LineDiscipline::echo_erased(uint8_t c) {
  if (c == '\t') return echo_erased_tab();
  const int cells = !is_control(c) ? 1 : has(ECHOCTL) ? 2 : 0;
  for (int i = 0; i < cells; ++i) {
    for (const uint8_t out : {'\b', ' ', '\b'}) echo_raw(out);
  }
}

// Back over a tab: as many cells as it took, which follows from the line before it.
void LineDiscipline::echo_erased_tab() {
  uint32_t cells = 0;
  bool follows_tab = false;
  for (uint64_t at = input_end(); at > edited_from_ && !follows_tab;) {
    const uint8_t c = input_at(--at);
    if (c == '\t') {
      follows_tab = true;
    } else if (is_control(c)) {
      if (has(ECHOCTL)) cells += 2;
    } else if (!is_continuation(c)) {
      ++cells;
    }
  }
  if (!follows_tab) cells += line_column_;
  for (uint32_t back = 8 - (cells & 7); back > 0; --back) {
    emit('\b');
    if (column_ > 0) --column_;
  }
}

// -- echo and output

void LineDiscipline::echo_typed(uint8_t c) {
  if (!has(ECHO)) return;
  if (!has_edited()) line_column_ = column_;
  echo(c);
}

void LineDiscipline::echo(uint8_t c) {
  if (has(ECHOCTL) && is_control(c) && c != '\t') {
    emit('^');
    emit(c ^ 0x40);
    column_ += 2;
  } else {
    screen(c);
  }
}

void LineDiscipline::echo_raw(uint8_t c) { screen(c); }

void LineDiscipline::emit(uint8_t c) {
  if (output.size() < kMostOutput) output.append(static_cast<std::byte>(c));
}

void LineDiscipline::screen(uint8_t c) {
  if ((modes_.output & OPOST) == 0) return emit(c);
  switch (c) {
    case '\n':
      if ((modes_.output & ONLRET) != 0) column_ = 0;
      if ((modes_.output & ONLCR) != 0) {
        emit('\r');
        column_ = 0;
      }
      line_column_ = column_;
      break;
    case '\r':
      if ((modes_.output & ONOCR) != 0 && column_ == 0) return;
      if ((modes_.output & OCRNL) != 0) {
        c = '\n';
        if ((modes_.output & ONLRET) != 0) line_column_ = column_ = 0;
      } else {
        line_column_ = column_ = 0;
      }
      break;
    case '\t': {
      const uint32_t spaces = 8 - (column_ & 7);
      column_ += spaces;
      if ((modes_.output & TABDLY) != XTABS) break;
      for (uint32_t i = 0; i < spaces; ++i) emit(' ');
      return;
    }
    case '\b':
      if (column_ > 0) --column_;
      break;
    default:
      if (is_control(c)) break;
      if ((modes_.output & OLCUC) != 0 && c >= 'a' && c <= 'z') c = static_cast<uint8_t>(c - 0x20);
      if (!is_continuation(c)) ++column_;
  }
  emit(c);
}

Try<size_t> LineDiscipline::write(Buffer& from) {
  std::array<std::byte, 1024> piece;
  size_t done = 0;
  while (from.size() > 0) {
    // A byte becomes eight at most.
    const size_t room = output.size() < kMostOutput ? (kMostOutput - output.size()) / 8 : 0;
    const size_t wanted = std::min({from.size(), room, piece.size()});
    if (wanted == 0) break;
    auto taken = from.take(std::span(piece).first(wanted));
    if (!taken && done == 0) return taken;
    if (!taken) return done;
    for (const std::byte byte : std::span(piece).first(*taken)) screen(static_cast<uint8_t>(byte));
    done += *taken;
    if (*taken < wanted) return done;
  }
  if (done == 0 && from.size() > 0) return err(EAGAIN);
  return done;
}

// -- reading

bool LineDiscipline::is_readable() const {
  if (has(ICANON)) return !lines_.empty();
  const size_t least = modes_.characters[VTIME] == 0 && modes_.characters[VMIN] != 0
                           ? static_cast<size_t>(modes_.characters[VMIN])
                           : 1;
  return input_.size() >= least;
}

size_t LineDiscipline::readable_bytes() const {
  if (!has(ICANON)) return input_.size();
  if (lines_.empty()) return 0;
  const auto markers = std::ranges::count_if(lines_, [](const LineEnd& line) { return line.is_marker; });
  return lines_.back().end - dropped_ - static_cast<size_t>(markers);
}

Try<size_t> LineDiscipline::read(Buffer& to, bool takes_what_is_there) {
  if (to.size() == 0) return 0;
  if (!has(ICANON)) {
    const size_t least = std::min<size_t>(to.size(), modes_.characters[VMIN]);
    if (input_.size() < least && (input_.is_empty() || !takes_what_is_there)) return err(EAGAIN);
    MEMBRANE_ASSIGN(const size_t count, input_.give_to(to, to.size()));
    dropped_ += count;
    edited_from_ = std::max(edited_from_, dropped_);
    return count;
  }
  if (lines_.empty()) return err(EAGAIN);
  const LineEnd line = lines_.front();
  const size_t text = line.end - dropped_ - (line.is_marker ? 1 : 0);
  size_t count = 0;
  if (text > 0) {
    MEMBRANE_ASSIGN(count, input_.give_to(to, std::min(text, to.size())));
    dropped_ += count;
  }
  if (count == text) {
    if (line.is_marker) {
      input_.drop(1);
      ++dropped_;
    }
    lines_.pop_front();
  }
  return count;
}

}  // namespace membrane::linux

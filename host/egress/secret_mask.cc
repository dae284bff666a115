#include "host/egress/secret_mask.h"

#include <algorithm>
#include <bit>

namespace membrane::host {
namespace {

constexpr size_t kPlacesBetweenLooks = 1 << 16;  // between polls of is_over

// Whether the character is a digit of base64 or hex, may be escaped to one, or may break lines of them.
bool may_be_digit(std::string_view text, size_t place) {
  static constexpr auto kMay = [] {
    std::array<bool, 256> may{};
    for (const char c :
         std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_%\\&#;\r\n"))
      may[static_cast<uint8_t>(c)] = true;
    return may;
  }();
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  const auto is_break = [](char c) { return c == '\r' || c == '\n'; };
  const char c = text[place];
  if (!is_space(c)) return kMay[static_cast<uint8_t>(c)];
  return place > 0 && (is_space(text[place - 1]) || is_break(text[place - 1]));
}

bool has(const uint64_t* words, size_t bit) { return (words[bit / 64] >> (bit % 64) & 1) != 0; }

// Visits the set bits, the highest first, until `visit` returns false.
template <typename Word, typename Visit>
void for_each_bit(size_t words, Word word, Visit visit) {
  for (size_t i = words; i-- > 0;)
    for (uint64_t left = word(i); left != 0;) {
      const size_t bit = 63 - static_cast<size_t>(std::countl_zero(left));
      if (!visit(i * 64 + bit)) return;
      left ^= uint64_t{1} << bit;
    }
}

size_t count_above(const uint64_t* words, size_t used, size_t bit) {
  size_t count = 0;
  for (size_t i = bit / 64; i < used; ++i)
    count += static_cast<size_t>(std::popcount(i == bit / 64 ? words[i] >> (bit % 64) >> 1 : words[i]));
  return count;
}

template <typename Row>
size_t end_of(const Row& row, size_t bit) {
  return row.ends[std::min(count_above(row.words, row.used, bit), row.ends.size() - 1)];
}

// Adds what `from` encodes preceded by `byte`, and the byte alone, which ends at `end`.
template <typename Row>
void extend(const uint64_t* places, size_t words, const Row& from, size_t end, Row& to) {
  uint64_t carry = 1;
  const size_t reached = std::min(from.used + 1, words);
  to.used = 0;
  for (size_t i = 0; i < reached; ++i) {
    const uint64_t word = i < from.used ? from.words[i] : 0;
    to.words[i] = (word << 1 | carry) & places[i];
    carry = word >> 63;
    if (to.words[i] != 0) to.used = i + 1;
  }
  size_t known = 0;
  for_each_bit(
      to.used, [&](size_t i) { return to.words[i]; },
      [&](size_t bit) {
        to.ends[known++] = bit == 0 ? end : end_of(from, bit - 1);
        return known < to.ends.size();
      });
}

template <typename Row>
void copy(const Row& from, Row& to) {
  std::copy_n(from.words, from.used, to.words);
  to.used = from.used;
  to.ends = from.ends;
}

// If both have a length, the farther end is kept.
template <typename Row>
void merge(const Row& from, Row& to) {
  if (from.used == 0) return;
  if (to.used == 0) return copy(from, to);
  const size_t used = std::max(from.used, to.used);
  std::fill(to.words + to.used, to.words + used, 0);
  const auto word_of = [](const Row& row, size_t i) { return i < row.used ? row.words[i] : 0; };
  auto ends = to.ends;
  size_t known = 0;
  for_each_bit(
      used, [&](size_t i) { return word_of(from, i) | to.words[i]; },
      [&](size_t bit) {
        const bool in_from = bit / 64 < from.used && has(from.words, bit);
        const size_t here = has(to.words, bit) ? end_of(to, bit) : 0;
        ends[known++] = std::max(here, in_from ? end_of(from, bit) : 0);
        return known < ends.size();
      });
  for (size_t i = 0; i < from.used; ++i) to.words[i] |= from.words[i];
  to.used = used;
  to.ends = ends;
}

}  // namespace

SecretMask::SecretMask(const std::vector<std::string>& secrets) {
  size_t words = 0, most = 0;
  for (const std::string& secret : secrets) {
    secrets_.push_back(secret_of(secret, words));
    words += secrets_.back().words;
    most = std::max(most, secrets_.back().words);
    is_last_[static_cast<uint8_t>(secret.back())] = true;
    if (secret.back() == ' ' || secret.back() == '+') is_last_[' '] = is_last_['+'] = true;
    shortest_digits_ = std::min(shortest_digits_, (secret.size() * 4 + 2) / 3);
  }
  const size_t nodes = Readings::kPlaces * Readings::kNodes;
  words_.resize(nodes * words + spare_.size() * most);
  rows_.resize(nodes * secrets_.size());
  for (size_t i = 0; i < rows_.size(); ++i)
    rows_[i].words = &words_[i / secrets_.size() * words + secrets_[i % secrets_.size()].first_word];
  for (size_t i = 0; i < spare_.size(); ++i) spare_[i].words = words_.data() + nodes * words + i * most;
}

// In a form, "+" is a space, and either may be taken for the other.
SecretMask::Secret SecretMask::secret_of(std::string_view bytes, size_t first_word) {
  const size_t words = (bytes.size() + 63) / 64;
  Secret secret{.last_bit = bytes.size() - 1, .words = words, .first_word = first_word};
  secret.bytes.resize(256 * words);
  const auto stands_at = [&](char byte, size_t bit) {
    secret.bytes[static_cast<uint8_t>(byte) * words + bit / 64] |= uint64_t{1} << (bit % 64);
  };
  for (size_t bit = 0; bit < bytes.size(); ++bit) {
    const char byte = bytes[bytes.size() - 1 - bit];
    stands_at(byte, bit);
    if (byte == '+') stands_at(' ', bit);
    if (byte == ' ') stands_at('+', bit);
  }
  return secret;
}

bool SecretMask::apply(std::string& text, const std::function<bool()>& is_over) {
  if (secrets_.empty()) return true;
  hidden_begin_ = hidden_end_ = text.size() + 1;
  digits_begin_ = text.size();
  readings_.begin(text.size());
  spelling_[text.size() % Readings::kPlaces] = 0;
  for (size_t place = text.size(); place-- > 0;) {
    if (place % kPlacesBetweenLooks == 1 && is_over != nullptr && is_over()) return false;
    readings_.read(place, text[place], may_be_digits(text, place));
    spelling_[place % Readings::kPlaces] = 0;
    for (uint32_t left = readings_.nodes(place); left != 0; left &= left - 1)
      match(text, place, static_cast<size_t>(std::countr_zero(left)));
  }
  return true;
}

// Most words of ordinary texts are too short for a secret in base64, and are not examined.
bool SecretMask::may_be_digits(std::string_view text, size_t place) {
  if (place >= digits_begin_) return are_digits_;
  const size_t least = place + 1 - std::min(place + 1, shortest_digits_);
  digits_begin_ = place + 1;
  while (digits_begin_ > least && may_be_digit(text, digits_begin_ - 1)) --digits_begin_;
  are_digits_ = place + 1 - digits_begin_ >= shortest_digits_;
  while (are_digits_ && digits_begin_ > 0 && may_be_digit(text, digits_begin_ - 1)) --digits_begin_;
  if (digits_begin_ > place) digits_begin_ = place;
  return are_digits_;
}

void SecretMask::match(std::string& text, size_t place, size_t node) {
  for (const Readings::Step& step : readings_.steps(place, node))
    if (step.count > 1 || is_last_[step.bytes[0]] || spells_something(place + step.next, step.node))
      follow(place, node, step);
  if (!spells_something(place, node)) return;
  for (size_t i = 0; i < secrets_.size(); ++i) {
    const Row& found = row(place, node, i);
    if (found.used == secrets_[i].words && has(found.words, secrets_[i].last_bit))
      hide(text, place, found.ends[0]);
  }
}

// Adds to the node's rows the step's bytes, followed by the rows of the node that it leads to.
void SecretMask::follow(size_t place, size_t node, const Readings::Step& step) {
  static const Row kNothing;
  const bool is_first = !spells_something(place, node);
  const bool goes_on = spells_something(place + step.next, step.node);
  bool spells = !is_first;
  for (size_t i = 0; i < secrets_.size(); ++i) {
    const Secret& secret = secrets_[i];
    Row& here = row(place, node, i);
    const Row* spelt = goes_on ? &row(place + step.next, step.node, i) : &kNothing;
    for (size_t byte = step.count; byte-- > 0;) {
      Row& longer = byte == 0 && is_first ? here : spare_[byte % 2];
      extend(&secret.bytes[step.bytes[byte] * secret.words], secret.words, *spelt, place + step.length,
             longer);
      spelt = &longer;
    }
    if (spelt != &here) merge(*spelt, here);
    spells = spells || here.used != 0;
  }
  if (spells) spelling_[place % Readings::kPlaces] |= 1u << node;
}

// Text full of the secret is masked once, however many of its readings overlap.
void SecretMask::hide(std::string& text, size_t begin, size_t end) {
  const auto fill = [&](size_t from, size_t to) {
    if (from < to)
      std::fill(text.begin() + static_cast<ptrdiff_t>(from), text.begin() + static_cast<ptrdiff_t>(to), '*');
  };
  if (end < hidden_begin_) {
    fill(begin, end);
    hidden_end_ = end;
  } else {
    fill(begin, hidden_begin_);
    fill(hidden_end_, end);
    hidden_end_ = std::max(hidden_end_, end);
  }
  hidden_begin_ = begin;
}

}  // namespace membrane::host

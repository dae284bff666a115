// What a person would read of an HTML page. Not a browser and not a sanitizer: tags are
// dropped, scripts and styles with what is in them, block elements end a line, entities are
// decoded, white space is folded. Takes any bytes; time is linear.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace membrane::host {

std::string html_text(std::string_view html);

struct HtmlLink {
  std::string href;  // as written, entities decoded
  std::string text;  // between <a> and </a>
};
// The first kMaxHtmlLinks of them.
inline constexpr size_t kMaxHtmlLinks = 100'000;
std::vector<HtmlLink> html_links(std::string_view html);

}  // namespace membrane::host

// The text of an HTML page as a person would read it. Not a browser and not a sanitizer: tags are dropped, scripts
// and styles with their content, block elements end a line, entities are decoded, white space is normalised. Takes
// any bytes, in linear time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace membrane::host {

std::string html_text(std::string_view html);

struct HtmlLink {
  std::string href;  // as written, entities decoded
  std::string text;  // the text between <a> and </a>
};
// The first kMaxHtmlLinks of them.
inline constexpr size_t kMaxHtmlLinks = 100'000;
std::vector<HtmlLink> html_links(std::string_view html);

}  // namespace membrane::host

#include "host/text/html_text.h"

#include <gtest/gtest.h>

namespace membrane::host {
namespace {

TEST(HtmlText, ReadsAsAPersonDoes) {
  EXPECT_EQ(
      html_text(
          "<html><head><title>Papers</title><style>p{color:red}</style></head>\n<body><h1>A &amp; B</h1>"
          "<p>One  <b>two</b>\nthree</p><script>var x = '<p>no</p>';</script><ul><li>x<li>y</ul></body>"),
      "Papers\nA & B\nOne two three\nx\ny");
  EXPECT_EQ(html_text("a<br>b<br/>c"), "a\nb\nc");
  EXPECT_EQ(html_text("no tags"), "no tags");
  EXPECT_EQ(html_text(""), "");
  EXPECT_EQ(html_text("<SCRIPT>x</ScRiPt >y"), "y");
}

TEST(HtmlText, DecodesEntities) {
  EXPECT_EQ(html_text("&lt;b&gt; &quot;x&quot; &#39;y&#39; &#x2014; &nbsp;z &eacute;"),
            "<b> \"x\" 'y' \xE2\x80\x94 z é");
  EXPECT_EQ(html_text("&unknown; &#0; &#xD800; & &amp"), "&unknown; &#0; \xEF\xBF\xBD & &amp");
}

TEST(HtmlText, SurvivesWhatIsNotHtml) {
  EXPECT_EQ(html_text("1 < 2 and 3 > 2"), "1 < 2 and 3 > 2");
  EXPECT_EQ(html_text("<"), "<");
  EXPECT_EQ(html_text("a<b"), "a");
  EXPECT_EQ(html_text("a<!-- never closed"), "a");
  EXPECT_EQ(html_text("a<!-->b-->c"), "ac");
  EXPECT_EQ(html_text("<!DOCTYPE html>x"), "x");
  EXPECT_EQ(html_text("<script>never closed"), "");
  EXPECT_EQ(html_text("<p title=\"a>b\">x"), "x");
}

TEST(HtmlText, TakesLinearTime) {
  for (const char* piece :
       {"<", "<a", "<!--", "<script>", "&", "&#", "</", "<a href=\"", "<script></scrip"}) {
    std::string html;
    while (html.size() < 300'000) html += piece;
    EXPECT_LE(html_text(html).size(), html.size() * 3);
    EXPECT_LE(html_links(html).size(), html.size());
  }
}

TEST(HtmlLinks, GivesHrefAndText) {
  const auto links = html_links(
      "<a href='/a.html'>A <b>b</b></a> x <A class=c HREF=b.html?x=1&amp;y=2>B</A><a name=z>none</a>"
      "<a href=\"c.html\">open <a href=d>next");
  ASSERT_EQ(links.size(), 4u);
  EXPECT_EQ(links[0].href, "/a.html");
  EXPECT_EQ(links[0].text, "A b");
  EXPECT_EQ(links[1].href, "b.html?x=1&y=2");
  EXPECT_EQ(links[1].text, "B");
  EXPECT_EQ(links[2].text, "open");
  EXPECT_EQ(links[3].href, "d");
  EXPECT_EQ(links[3].text, "next");
}

}  // namespace
}  // namespace membrane::host

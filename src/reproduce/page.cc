#include "reproduce/page.h"

#include "reproduce/format.h"
#include "reproduce/markup.h"
#include "reproduce/resources.h"

namespace rapt::reproduce {
namespace {

// Folded tables are opened in print.
constexpr const char* kScript =
    "addEventListener('beforeprint', function () { document.querySelectorAll('details').forEach(function (d) { "
    "d.open = true; }); });";

std::string anchor(const PartResult& part) { return "part-" + part.name; }

// 1e-12 is one word: an ordinary hyphen would let a line end in it.
std::string unbroken(const std::string& text) {
  std::string result;
  for (std::size_t n = 0; n < text.size(); ++n) {
    const auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    const bool exponent = text[n] == '-' && n > 1 && text[n - 1] == 'e' && digit(n - 2) && digit(n + 1);
    result += exponent ? std::string("\u2011") : std::string(1, text[n]);
  }
  return result;
}

class PageWriter {
 public:
  explicit PageWriter(const Report& report) : report_(report) {}

  std::string write() {
    html_.raw("<!DOCTYPE html>\n").open("html", {{"xmlns", "http://www.w3.org/1999/xhtml"}, {"lang", "en"}}).line();
    write_head();
    html_.open("body").line();
    html_.element("a", "Skip to the claims", {{"class", "skip"}, {"href", "#claims"}}).line();
    write_contents();
    write_header();
    html_.open("main").line();
    write_claims();
    for (const PartResult& part : report_.parts) write_part(part);
    html_.close().line();
    html_.open("footer")
        .element("p",
                 "Made by rapt reproduce. Commands are given as they would be typed beside this report; the models "
                 "that were trained are in its folder runs.")
        .close()
        .line();
    html_.close().line().close().line();
    return std::move(html_).finish();
  }

 private:
  void write_head() {
    html_.open("head").line();
    html_.empty("meta", {{"charset", "utf-8"}}).line();
    html_.empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}}).line();
    html_.empty("meta", {{"name", "color-scheme"}, {"content", "light dark"}}).line();
    // An empty icon: without it a browser asks for one.
    html_.empty("link", {{"rel", "icon"}, {"href", "data:,"}}).line();
    html_.element("title", "Attention, reproduced").line();
    html_.open("style").raw(style_sheet()).close().line();
    html_.open("script").raw(kScript).close().line();
    html_.close().line();
  }

  void write_contents() {
    html_.open("nav", {{"aria-label", "Contents"}}).open("div").element("h2", "Contents").open("ol").line();
    html_.open("li").element("a", "Claims", {{"href", "#claims"}}).close().line();
    for (const PartResult& part : report_.parts)
      html_.open("li").element("a", part.section.title, {{"href", "#" + anchor(part)}}).close().line();
    html_.close().close().close().line();
  }

  void write_header() {
    html_.open("header").line();
    html_.element("h1", "Five course documents on attention, reproduced").line();
    html_.open("p", {{"class", "verdict"}});
    html_.element("span", report_.holds() ? "✓ Every required claim holds. " : "✗ A required claim does not hold. ",
                  {{"class", report_.holds() ? "holds" : "fails"}});
    html_.text(report_.summary()).close().line();
    html_.open("dl", {{"class", "machine"}}).line();
    for (const auto& [name, text] : report_.machine.facts) fact(name, text);
    fact("run", std::string(report_.quick ? "quick" : "full") + ", seed " + std::to_string(report_.seed) + ", " +
                    std::to_string(report_.threads) + (report_.threads == 1 ? " thread, " : " threads, ") +
                    duration(report_.seconds));
    html_.close().line();
    if (report_.quick)
      html_
          .element("p",
                   "A quick run: models are smaller, or trained for fewer epochs, than in the documents. Each part "
                   "says what it ran; without --quick, rapt reproduce runs all of it.")
          .line();
    html_.close().line();
  }

  void fact(const std::string& name, const std::string& text) { html_.element("dt", name).element("dd", text).line(); }

  void write_claims() {
    html_.open("section", {{"id", "claims"}, {"aria-labelledby", "claims-title"}}).line();
    html_.element("h2", "Claims", {{"id", "claims-title"}}).line();
    html_
        .element("p",
                 "What each document says, and what this run computed. The documents are course texts on attention: "
                 "Practical 10, Recitation 8, Assignment 6 (self-attention and convolution), Discussion 8, and MulT, a "
                 "notebook on attention shared between tasks. Numbers under “its figure” are printed in the "
                 "document unless the row names another source: some documents give a formula or a statement "
                 "without numbers. An informative claim depends on the machine, on chance, or on settings that the "
                 "document does not state: it is reported, but does not affect the verdict. A figure marked as "
                 "stored was measured earlier, on the machine that its part names. Where a claim does not hold, the "
                 "reason is given beside it.")
        .line();
    // Roles are repeated because narrow screens show the rows as blocks, which would lose them.
    html_.open("table", {{"class", "claims"}, {"role", "table"}}).open("thead").open("tr", {{"role", "row"}});
    for (const char* name : {"document", "claim", "its figure", "our figure", "holds where", "holds"})
      html_.element("th", name, {{"scope", "col"}, {"role", "columnheader"}});
    html_.close().close().line().open("tbody").line();
    for (const PartResult& part : report_.parts) {
      for (const Claim& claim : part.section.claims) write_claim(part, claim);
      if (!part.error.empty())
        write_claim(part, {"", "the part runs", "", part.error, "no error", false, Weight::must_hold,
                           "The part ended with an error."});
    }
    html_.close().close().line().close().line();
  }

  void write_claim(const PartResult& part, const Claim& claim) {
    const auto cell = [&](const char* label, const std::string& text) {
      html_.element("td", unbroken(text), {{"role", "cell"}, {"data-label", label}});
    };
    html_.open("tr", {{"role", "row"}});
    cell("document", claim.document);
    html_.open("td", {{"role", "cell"}, {"data-label", "claim"}})
        .element("a", claim.claim, {{"href", "#" + anchor(part)}})
        .close();
    cell("its figure", claim.theirs);
    cell("our figure", claim.ours);
    cell("holds where", claim.rule);
    html_.open("td", {{"role", "cell"}, {"data-label", "holds"}});
    const bool must = claim.weight == Weight::must_hold;
    const char* look = claim.holds ? "holds" : must ? "fails" : "informs";
    html_.element("span",
                  std::string(claim.holds ? "✓ holds"
                              : must      ? "✗ does not hold"
                                          : "– does not hold"),
                  {{"class", look}});
    if (!must) html_.text(" (informative)");
    if (!claim.holds) html_.element("p", claim.why_not(), {{"class", "reason"}});
    html_.close().close().line();
  }

  void write_part(const PartResult& part) {
    const std::string id = anchor(part);
    html_.open("section", {{"id", id}, {"aria-labelledby", id + "-title"}}).line();
    html_.element("h2", part.section.title, {{"id", id + "-title"}}).line();
    html_.open("p", {{"class", "document"}}).text(part.section.document);
    if (!part.section.document.empty()) html_.text(" · ");
    html_.text(duration(part.seconds) + " · rapt reproduce " + part.name).close().line();
    if (!part.error.empty())
      html_.element("p", "This part failed: " + part.error, {{"class", "error"}, {"role", "alert"}}).line();
    for (const Block& block : part.section.blocks) std::visit([this](const auto& b) { write(b); }, block);
    html_.close().line();
  }

  void write(const Paragraph& paragraph) { html_.element("p", paragraph.text).line(); }

  void write(const Commands& commands) {
    html_.open("pre", {{"tabindex", "0"}, {"aria-label", "Commands"}, {"role", "region"}}).open("code");
    for (std::size_t n = 0; n < commands.lines.size(); ++n) {
      if (n > 0) html_.line();
      html_.text(commands.lines[n]);
    }
    html_.close().close().line();
  }

  void write(const Table& table) {
    if (table.folded) html_.open("details").element("summary", table.caption).line();
    // A table wider than the screen can be scrolled with the keyboard.
    html_.open("div", {{"class", "scroll"}, {"tabindex", "0"}, {"role", "region"}, {"aria-label", table.caption}});
    html_.open("table");
    if (!table.folded && !table.caption.empty()) html_.element("caption", table.caption);
    const auto look = [&](std::size_t n) { return n < table.text_columns ? "text" : "number"; };
    html_.open("thead").open("tr");
    for (std::size_t n = 0; n < table.head.size(); ++n)
      html_.element("th", table.head[n], {{"scope", "col"}, {"class", look(n)}});
    html_.close().close().line().open("tbody").line();
    for (const auto& row : table.rows) {
      html_.open("tr");
      for (std::size_t n = 0; n < row.size(); ++n) html_.element("td", row[n], {{"class", look(n)}});
      html_.close().line();
    }
    html_.close().close().close().line();
    if (table.folded) html_.close().line();
  }

  void write(const Picture& picture) {
    // A chart of many rows cannot be read at the height of the others.
    if (picture.drawing.height > 800) html_.open("figure", {{"class", "tall"}}).line();
    else html_.open("figure").line();
    html_.raw(pictures::to_svg(picture.drawing, pictures::Theme::automatic));
    if (!picture.caption.empty()) html_.element("figcaption", picture.caption).line();
    html_.close().line();
  }

  const Report& report_;
  Markup html_;
};

}  // namespace

std::string to_page(const Report& report) { return PageWriter(report).write(); }

}  // namespace rapt::reproduce

from urllib.parse import parse_qs, parse_qsl, quote, quote_plus, unquote, urlencode, urljoin, urlsplit, urlunsplit

url = "https://user@shop.example.org:8443/search/items%20new?q=ink+pen&tag=a&tag=b&empty=#top"
parts = urlsplit(url)
print(parts)
print(parts.hostname, parts.port, parts.username)
print(parse_qs(parts.query, keep_blank_values=True))
print(unquote(parts.path))

params = [(k, v) for k, v in parse_qsl(parts.query) if k != "tag"] + [("page", 2), ("name", "Zoë & Co")]
print(urlunsplit(parts._replace(query=urlencode(params), fragment="")))

base = "https://example.org/a/b/c.html"
for link in ("d.html", "../x", "/root", "//cdn.example.net/y", "?p=1", "#frag", "mailto:a@example.org"):
    print(f"{link:<24} {urljoin(base, link)}")

print(quote("a/b c?"), quote("a/b c?", safe=""), quote_plus("50% off"))

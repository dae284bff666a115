const url = new URL('https://user:pw@shop.example.org:8443/search/items%20new?q=ink+pen&tag=a&tag=b#top');
console.log(url.hostname, url.port, url.pathname, url.hash, url.username, url.origin);
console.log(url.searchParams.get('q'), url.searchParams.getAll('tag'), url.searchParams.has('x'));
url.searchParams.set('page', 2);
url.searchParams.delete('tag');
url.hash = '';
console.log(url.href, String(url) === url.toString());

const params = new URLSearchParams({ name: 'Zoë & Co', n: 1 });
params.append('n', '2');
params.sort();
console.log(params.toString(), [...params], Object.fromEntries(params));

for (const link of ['d.html', '../x', '/root', '//cdn.example.net/y', '?p=1', '#frag', 'mailto:a@example.org']) {
  console.log(link.padEnd(22), new URL(link, 'https://example.org/a/b/c.html').href);
}
try {
  new URL('not a url');
} catch (e) {
  console.log(e.name, e.code);
}
console.log(URL.canParse('https://x.y'), decodeURIComponent('%C3%A9'), encodeURIComponent("it's (ok)!"));
console.log(url);
const { pathname, search } = new URL('file:///srv/../data/./x.csv?y');
console.log(pathname, search);

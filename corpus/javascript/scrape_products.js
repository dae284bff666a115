const fs = require('fs');

const html = fs.readFileSync('data/products.html', 'utf-8');

const decode = (s) =>
  s.replace(/&(amp|lt|gt|quot|mdash|copy|nbsp|#\d+);/g, (_, e) =>
    e[0] === '#' ? String.fromCodePoint(+e.slice(1)) : { amp: '&', lt: '<', gt: '>', quot: '"', mdash: '—', copy: '©', nbsp: ' ' }[e]);
const strip = (s) => decode(s.replace(/<[^>]+>/g, ' ')).replace(/\s+/g, ' ').trim();

console.log('Title:', strip(html.match(/<title>(.*?)<\/title>/s)[1]));

const products = [...html.matchAll(/<div class="product([^"]*)" data-id="(\d+)" data-stock="(\d+)">(.*?)<\/div>/gs)].map(
  ([, classes, id, stock, body]) => {
    const prices = [...body.matchAll(/€([\d,.]+)/g)].map((m) => Number(m[1].replace(',', '')));
    const rating = body.match(/([\d.]+) out of 5 \((\d+)/);
    return {
      id: Number(id),
      name: strip(body.match(/<h2[^>]*>(.*?)<\/h2>/s)[1]),
      price: prices.at(-1),
      was: prices.length > 1 ? prices[0] : undefined,
      sale: classes.includes('sale'),
      inStock: stock !== '0',
      rating: rating ? { stars: +rating[1], reviews: +rating[2] } : null,
      tags: [...body.matchAll(/<li>(.*?)<\/li>/g)].map((m) => m[1]),
    };
  },
);

console.log(products[0]);
console.log(JSON.stringify(products[1]));
for (const p of products.filter((p) => p.sale)) {
  console.log(`${p.name}: ${p.was} -> ${p.price} (-${Math.round((1 - p.price / p.was) * 100)} %)`);
}
const tags = {};
for (const { name, tags: list } of products) for (const t of list) (tags[t] ||= []).push(name);
console.log(tags);

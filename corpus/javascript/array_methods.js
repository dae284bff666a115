const people = [
  { name: 'Ines', age: 34, city: 'Lisbon', langs: ['pt', 'en'] },
  { name: 'Omar', age: 39, city: 'Berlin', langs: ['ar', 'de', 'en'] },
  { name: 'Lena', age: 44, city: 'Berlin', langs: ['de'] },
  { name: 'Mei', age: 9, city: 'Osaka', langs: ['zh', 'ja', 'en'] },
];

console.log(people.map((p) => p.name));
console.log(people.filter(({ age }) => age > 35).map(({ name, age }) => `${name} (${age})`).join(', '));
console.log(people.reduce((sum, { age }) => sum + age, 0) / people.length);
console.log(people.find((p) => p.city === 'Berlin')?.name, people.findIndex((p) => p.city === 'Nowhere'), people.findLast((p) => p.city === 'Berlin').name);
console.log([...new Set(people.flatMap((p) => p.langs))]);
console.log(people.some((p) => p.age < 18), people.every((p) => p.langs.length));
console.log([...people].sort((a, b) => a.city.localeCompare(b.city) || b.age - a.age).map((p) => p.name));

const groups = people.reduce((acc, p) => ({ ...acc, [p.city]: [...(acc[p.city] ?? []), p.name] }), {});
console.log(groups);
console.log(Object.entries(groups).map(([city, names]) => ({ city, count: names.length })));

console.log([3, 20, 100].sort(), [3, 20, 100].sort((a, b) => b - a), ['b', 'a', 'C'].sort());
console.log(Array.from({ length: 5 }, (_, i) => i ** 2), [...Array(3).keys()], new Array(3).fill(0), Array.of(7));
console.log([1, [2, [3, [4]]]].flat(Infinity), [1, 2, 3].includes(2), [1, 2, 3, 4].at(-1), [1, 2, 3].indexOf(5));
const a = [1, 2, 3, 4, 5];
console.log(a.splice(1, 2, 'x', 'y', 'z'), a, a.slice(-2), a.concat([9]), a.toReversed(), a.with(0, 'first'), a.toSpliced(0, 2));
console.log([5, 1, 4].toSorted(), [1, 2, 3].entries().next(), [..."héllo"], [,1,,2], [undefined, null, NaN]);
const [first, , third = 'none', ...rest] = [1, 2, undefined, 4, 5];
console.log(first, third, rest);
const chunk = (list, n) => list.length ? [list.slice(0, n), ...chunk(list.slice(n), n)] : [];
console.log(chunk([1, 2, 3, 4, 5], 2), Math.max(...[3, 9, 2]), [1, 2, 3].reduceRight((s, x) => s + x, ''), [3, 4].copyWithin(0, 1));
const zip = (...lists) => lists[0].map((_, i) => lists.map((l) => l[i]));
console.log(zip([1, 2], ['a', 'b']), Object.fromEntries(zip(['k1', 'k2'], [1, 2])));

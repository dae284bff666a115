const d = new Date('2024-02-29T23:15:30.250Z');
console.log(d.toISOString(), d.getTime(), d.getUTCDay(), d.toJSON());
console.log(d.getUTCFullYear(), d.getUTCMonth() + 1, d.getUTCDate(), d.getUTCHours(), d.getUTCMilliseconds());
console.log(new Date(Date.UTC(2023, 12, 1)).toISOString(), Date.parse('2024-01-01'), new Date('2024-03-10T10:00:00+02:00').toISOString());
console.log(new Date('nonsense').getTime(), isNaN(new Date('2024-13-01')), d.toUTCString(), d);

const addMonths = (date, n) => {
  const out = new Date(date);
  const day = out.getUTCDate();
  out.setUTCDate(1);
  out.setUTCMonth(out.getUTCMonth() + n);
  const last = new Date(Date.UTC(out.getUTCFullYear(), out.getUTCMonth() + 1, 0)).getUTCDate();
  out.setUTCDate(Math.min(day, last));
  return out;
};
console.log([1, 12, -1, 24].map((n) => addMonths(d, n).toISOString().slice(0, 10)));

const isoWeek = (date) => {
  const t = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()));
  t.setUTCDate(t.getUTCDate() + 4 - (t.getUTCDay() || 7));
  return Math.ceil(((t - Date.UTC(t.getUTCFullYear(), 0, 1)) / 864e5 + 1) / 7);
};
console.log(['2024-01-01', '2024-12-30', '2023-01-01', '2020-12-31'].map((s) => isoWeek(new Date(s))));

const days = (new Date('2024-12-25') - new Date('2024-05-14')) / (1000 * 60 * 60 * 24);
const names = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
console.log(days, names[new Date('2024-12-25').getUTCDay()]);

const format = (date, pattern) => pattern.replace(/YYYY|MM|DD|hh|mm|ss/g, (k) => ({
  YYYY: date.getUTCFullYear(), MM: date.getUTCMonth() + 1, DD: date.getUTCDate(),
  hh: date.getUTCHours(), mm: date.getUTCMinutes(), ss: date.getUTCSeconds(),
})[k].toString().padStart(2, '0'));
console.log(format(d, 'DD/MM/YYYY hh:mm:ss'), format(new Date(0), 'YYYY.MM.DD'));

const human = (s) => [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']].reduce(([out, rest], [n, u]) => [rest >= n ? [...out, Math.floor(rest / n) + u] : out, rest % n], [[], s])[0].join(' ');
console.log(human(98765), '|', human(59), '|', human(3600));
const holidays = new Set(['2024-05-01', '2024-05-09']);
let work = 0;
for (let t = new Date('2024-05-01'); t < new Date('2024-06-01'); t.setUTCDate(t.getUTCDate() + 1)) {
  if (t.getUTCDay() % 6 && !holidays.has(t.toISOString().slice(0, 10))) work++;
}
console.log('working days in May:', work, typeof Date.now(), new Date(2024, 0, 31, 12).getTimezoneOffset());

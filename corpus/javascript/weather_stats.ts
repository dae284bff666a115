import { readFileSync } from 'fs';

interface Reading { date: string; city: string; temp: number | null; humidity: number; rain: number }
type NumericKey = { [K in keyof Reading]: Reading[K] extends number | null ? K : never }[keyof Reading];

const readings: Reading[] = readFileSync('data/weather.csv', 'utf8')
  .split(/\r?\n/)
  .slice(1)
  .filter(Boolean)
  .map((line) => {
    const [date, city, temp, humidity, rain] = line.split(',') as [string, string, string, string, string];
    return { date, city, temp: temp === '' ? null : Number(temp), humidity: Number(humidity), rain: Number(rain) };
  });

function mean(values: number[]): number {
  return values.reduce((a, b) => a + b, 0) / values.length;
}
function column(rows: Reading[], key: NumericKey): number[] {
  return rows.map((r) => r[key]).filter((v): v is number => v !== null);
}

const cities: string[] = [...new Set(readings.map((r) => r.city))].sort();
const table = cities.map((city) => {
  const rows = readings.filter((r) => r.city === city);
  const temps = column(rows, 'temp');
  return {
    city,
    days: rows.length,
    missing: rows.length - temps.length,
    mean: Number(mean(temps).toFixed(2)),
    min: Math.min(...temps),
    max: Math.max(...temps),
    rainyDays: rows.filter((r) => r.rain > 1).length,
  };
});
console.table(table);

const monthly: Map<string, Map<string, number[]>> = new Map();
for (const { date, city, temp } of readings) {
  if (temp === null) continue;
  const month = date.substring(0, 7);
  if (!monthly.has(month)) monthly.set(month, new Map());
  const byCity = monthly.get(month)!;
  byCity.set(city, [...(byCity.get(city) ?? []), temp]);
}
for (const [month, byCity] of monthly) {
  console.log(month, ...cities.map((c) => `${c} ${mean(byCity.get(c) ?? [NaN]).toFixed(1)}`));
}

let streak = 0, longest: { length: number; until: string } = { length: 0, until: '' };
for (const r of readings.filter((r) => r.city === 'Oslo')) {
  streak = r.temp !== null && r.temp < 0 ? streak + 1 : 0;
  if (streak > longest.length) longest = { length: streak, until: r.date };
}
console.log('longest frost:', longest);
const spark = (values: number[]): string => values.map((v) => '▁▂▃▄▅▆▇█'[Math.floor(((v - Math.min(...values)) / (Math.max(...values) - Math.min(...values))) * 7)]).join('');
console.log(spark(column(readings.filter((r) => r.city === 'Lisbon'), 'temp').slice(0, 40)));

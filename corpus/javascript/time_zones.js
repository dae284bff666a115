// A meeting, in the time of each office; and the hours that a change of the clock takes or gives.
const offices = { "New York": "America/New_York", London: "Europe/London", Berlin: "Europe/Berlin", Bangalore: "Asia/Kolkata", Sydney: "Australia/Sydney" };
const timeIn = (moment, timeZone) =>
  new Intl.DateTimeFormat("en-US", { timeZone, weekday: "short", hour: "numeric", minute: "2-digit", timeZoneName: "short" }).format(moment).replace(/\u202f/g, " ");

for (const moment of [new Date("2024-01-15T15:00:00Z"), new Date("2024-07-15T15:00:00Z")])
  for (const [office, zone] of Object.entries(offices)) console.log(office.padEnd(10), timeIn(moment, zone));

// The offset of a zone, as libraries find it: by the parts of a date.
const formats = new Map();
const formatIn = (timeZone) => {
  const options = { hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" };
  if (!formats.has(timeZone)) formats.set(timeZone, new Intl.DateTimeFormat("en-US", { timeZone, ...options }));
  return formats.get(timeZone);
};
function offsetHours(timeZone, at) {
  const { year, month, day, hour, minute, second } = Object.fromEntries(formatIn(timeZone).formatToParts(at).map(({ type, value }) => [type, Number(value)]));
  return (Date.UTC(year, month - 1, day, hour, minute, second) - at) / 3_600_000;
}
for (const zone of Object.values(offices)) {
  const changes = [];
  let before = offsetHours(zone, Date.UTC(2024, 0, 1));
  for (let at = Date.UTC(2024, 0, 1, 1); at < Date.UTC(2025, 0, 1); at += 3_600_000) {
    const offset = offsetHours(zone, at);
    if (offset !== before) changes.push(`${new Date(at).toISOString().slice(0, 16)}Z ${offset > before ? "+" : ""}${offset - before}`);
    before = offset;
  }
  console.log(zone, changes.join(", ") || "no change");
}
const days = ["2024-03-10", "2024-11-03"].map((day) => {
  process.env.TZ = "America/New_York";
  const begin = new Date(`${day}T00:00`);
  const end = new Date(begin.getFullYear(), begin.getMonth(), begin.getDate() + 1);
  return `${day} has ${(end - begin) / 3_600_000} hours`;
});
console.log(days.join("\n"));

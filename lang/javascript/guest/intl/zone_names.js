// Names of time zones for en-US, as in the CLDR: of the zones that many people live in. The others are shown by their offset, as the
// CLDR itself shows a zone without a name.
(() => {
  "use strict";
  const shared = globalThis.__membrane;

  // By the database's abbreviation and the offset in hours. The first group has short names, too.
  const kAmerican = {
    "EST-5": "Eastern Standard Time",
    "EDT-4": "Eastern Daylight Time",
    "CST-6": "Central Standard Time",
    "CDT-5": "Central Daylight Time",
    "MST-7": "Mountain Standard Time",
    "MDT-6": "Mountain Daylight Time",
    "PST-8": "Pacific Standard Time",
    "PDT-7": "Pacific Daylight Time",
    "AKST-9": "Alaska Standard Time",
    "AKDT-8": "Alaska Daylight Time",
    "HST-10": "Hawaii-Aleutian Standard Time",
    "AST-4": "Atlantic Standard Time",
    "ADT-3": "Atlantic Daylight Time",
    "GMT+0": "Greenwich Mean Time",
  };
  const kByAbbreviation = {
    ...kAmerican,
    "NST-3.5": "Newfoundland Standard Time",
    "NDT-2.5": "Newfoundland Daylight Time",
    "BST+1": "British Summer Time",
    "IST+1": "Irish Standard Time",
    "WET+0": "Western European Standard Time",
    "WEST+1": "Western European Summer Time",
    "CET+1": "Central European Standard Time",
    "CEST+2": "Central European Summer Time",
    "EET+2": "Eastern European Standard Time",
    "EEST+3": "Eastern European Summer Time",
    "MSK+3": "Moscow Standard Time",
    "WAT+1": "West Africa Standard Time",
    "CAT+2": "Central Africa Time",
    "SAST+2": "South Africa Standard Time",
    "EAT+3": "East Africa Time",
    "IST+2": "Israel Standard Time",
    "IDT+3": "Israel Daylight Time",
    "PKT+5": "Pakistan Standard Time",
    "IST+5.5": "India Standard Time",
    "WIB+7": "Western Indonesia Time",
    "WITA+8": "Central Indonesia Time",
    "WIT+9": "Eastern Indonesia Time",
    "HKT+8": "Hong Kong Standard Time",
    "CST+8": "China Standard Time",
    "PST+8": "Philippine Standard Time",
    "KST+9": "Korean Standard Time",
    "JST+9": "Japan Standard Time",
    "AWST+8": "Australian Western Standard Time",
    "ACST+9.5": "Australian Central Standard Time",
    "ACDT+10.5": "Australian Central Daylight Time",
    "AEST+10": "Australian Eastern Standard Time",
    "AEDT+11": "Australian Eastern Daylight Time",
    "NZST+12": "New Zealand Standard Time",
    "NZDT+13": "New Zealand Daylight Time",
  };
  // Of zones whose abbreviation is none, or another zone's.
  const kByZone = {
    "America/Argentina/Buenos_Aires": { "-3": "Argentina Standard Time" },
    "America/Bogota": { "-5": "Colombia Standard Time" },
    "America/Caracas": { "-4": "Venezuela Time" },
    "America/Dawson": { "-7": "Yukon Time" },
    "America/Havana": { "-5": "Cuba Standard Time", "-4": "Cuba Daylight Time" },
    "America/Hermosillo": { "-7": "Mexican Pacific Standard Time" },
    "America/Lima": { "-5": "Peru Standard Time" },
    "America/Mazatlan": { "-7": "Mexican Pacific Standard Time" },
    "America/Montevideo": { "-3": "Uruguay Standard Time" },
    "America/Santiago": { "-4": "Chile Standard Time", "-3": "Chile Summer Time" },
    "America/Sao_Paulo": { "-3": "Brasilia Standard Time" },
    "America/Whitehorse": { "-7": "Yukon Time" },
    "Asia/Bangkok": { "+7": "Indochina Time" },
    "Asia/Dhaka": { "+6": "Bangladesh Standard Time" },
    "Asia/Dubai": { "+4": "Gulf Standard Time" },
    "Asia/Ho_Chi_Minh": { "+7": "Indochina Time" },
    "Asia/Kabul": { "+4.5": "Afghanistan Time" },
    "Asia/Kathmandu": { "+5.75": "Nepal Time" },
    "Asia/Kuala_Lumpur": { "+8": "Malaysia Time" },
    "Asia/Riyadh": { "+3": "Arabian Standard Time" },
    "Asia/Singapore": { "+8": "Singapore Standard Time" },
    "Asia/Taipei": { "+8": "Taiwan Standard Time" },
    "Asia/Tashkent": { "+5": "Uzbekistan Standard Time" },
    "Asia/Tehran": { "+3.5": "Iran Standard Time" },
  };
  const kGeneric = { "-10": "HST", "-9": "AKT", "-8": "PT", "-7": "MT", "-6": "CT", "-5": "ET", "-4": "AT", "+0": "GMT" };

  // "GMT+1", "GMT-3:30", or with two digits "GMT+01:00".
  function offsetName(offset, isLong) {
    if (offset === 0) return "GMT";
    const [, sign, hours, minutes] = /([-+])(\d\d)(\d\d)$/.exec(shared.zones.offsetText(offset));
    const seconds = (Math.abs(offset) / 1000) % 60;
    const rest = seconds === 0 ? "" : `:${String(seconds).padStart(2, "0")}`;
    return `GMT${sign}${isLong ? hours : Number(hours)}${isLong || minutes !== "00" || rest ? `:${minutes}${rest}` : ""}`;
  }
  const hoursOf = (offset) => `${offset < 0 ? "" : "+"}${offset / 3_600_000}`;

  // width: as the option timeZoneName. rules: { name, offset, isSummer }, where the name is the database's abbreviation.
  function nameOfZone(width, zone, { name, offset, isSummer }) {
    const isLong = width.startsWith("long");
    const key = name + hoursOf(offset);
    if (width.endsWith("Offset")) return offsetName(offset, isLong);
    const own = kByZone[zone];
    const long = (own ?? kByAbbreviation)[own ? hoursOf(offset) : key];
    if (isLong && long !== undefined)
      return width === "longGeneric" ? long.replace(/ (?:Standard|Daylight|Summer) Time$/, " Time") : long;
    if (isLong || own || !(key in kAmerican)) return offsetName(offset, isLong);
    return width === "shortGeneric" ? kGeneric[hoursOf(isSummer ? offset - 3_600_000 : offset)] : name;
  }
  function nameOfUtc(width) {
    if (width.endsWith("Offset") || width.endsWith("Generic")) return "GMT";
    return width === "long" ? "Coordinated Universal Time" : "UTC";
  }

  Object.assign(shared.intl, { nameOfUtc, nameOfZone });
})();

const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const months = [
  ...['January', 'February', 'March', 'April', 'May', 'June', 'July'],
  ...['August', 'September', 'October', 'November', 'December'],
];

const padded = (value: number, width = 2, fill = '0'): string => String(value).padStart(width, fill);

/** Days since the first of January. */
const dayOfYear = (time: Date): number =>
  Math.round(
    (Date.UTC(time.getFullYear(), time.getMonth(), time.getDate()) - Date.UTC(time.getFullYear(), 0, 1)) /
      86_400_000,
  );

/** The week of a year whose weeks begin at a day (0: Sunday). */
const weekOfYear = (time: Date, start: number): number =>
  Math.floor((dayOfYear(time) + 7 - ((time.getDay() + 7 - start) % 7)) / 7);

/** The year and week of ISO 8601: a week belongs to the year of its Thursday. */
function isoWeek(time: Date): { readonly year: number; readonly week: number } {
  const thursday = new Date(time.getFullYear(), time.getMonth(), time.getDate() + 4 - (time.getDay() || 7));
  return { year: thursday.getFullYear(), week: Math.floor(dayOfYear(thursday) / 7) + 1 };
}

const fields: Readonly<Record<string, (time: Date) => string>> = {
  a: (time) => days[time.getDay()]!.slice(0, 3),
  A: (time) => days[time.getDay()]!,
  b: (time) => months[time.getMonth()]!.slice(0, 3),
  h: (time) => months[time.getMonth()]!.slice(0, 3),
  B: (time) => months[time.getMonth()]!,
  c: (time) => strftime(time, '%a %b %e %H:%M:%S %Y'),
  C: (time) => padded(Math.floor(time.getFullYear() / 100)),
  d: (time) => padded(time.getDate()),
  D: (time) => strftime(time, '%m/%d/%y'),
  e: (time) => padded(time.getDate(), 2, ' '),
  F: (time) => strftime(time, '%Y-%m-%d'),
  f: (time) => padded(time.getMilliseconds() * 1000, 6),
  G: (time) => String(isoWeek(time).year),
  H: (time) => padded(time.getHours()),
  I: (time) => padded(time.getHours() % 12 || 12),
  j: (time) => padded(dayOfYear(time) + 1, 3),
  k: (time) => padded(time.getHours(), 2, ' '),
  l: (time) => padded(time.getHours() % 12 || 12, 2, ' '),
  m: (time) => padded(time.getMonth() + 1),
  M: (time) => padded(time.getMinutes()),
  n: () => '\n',
  p: (time) => (time.getHours() < 12 ? 'AM' : 'PM'),
  r: (time) => strftime(time, '%I:%M:%S %p'),
  R: (time) => strftime(time, '%H:%M'),
  s: (time) => String(Math.floor(time.getTime() / 1000)),
  S: (time) => padded(time.getSeconds()),
  t: () => '\t',
  T: (time) => strftime(time, '%H:%M:%S'),
  u: (time) => String(time.getDay() || 7),
  U: (time) => padded(weekOfYear(time, 0)),
  V: (time) => padded(isoWeek(time).week),
  w: (time) => String(time.getDay()),
  W: (time) => padded(weekOfYear(time, 1)),
  x: (time) => strftime(time, '%m/%d/%y'),
  X: (time) => strftime(time, '%H:%M:%S'),
  y: (time) => padded(time.getFullYear() % 100),
  Y: (time) => String(time.getFullYear()),
  // a time of Python's `datetime.now()` has no zone
  z: () => '',
  Z: () => '',
  '%': () => '%',
};

/** Python's `time.strftime(format)` in the locale C; `%-d` is without zeros and spaces before a number. */
export const strftime = (time: Date, format: string): string =>
  format.replace(/%(-?)([a-zA-Z%])/g, (whole, bare: string, letter: string) => {
    const field = fields[letter]?.(time);
    if (field === undefined) return whole;
    return bare === '' ? field : field.replace(/^[0 ]+(?=.)/, '');
  });
